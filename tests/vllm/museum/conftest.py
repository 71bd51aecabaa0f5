"""Makes the protocol of `mail_variants` and its exhibits available to a single test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dpsim.contract import registry

EXHIBIT = """
name: {name}
protocol: {{name: mail, variant: {variant}}}
topology: {{data_parallel_size: {ranks}}}
workload: {{requests: [{{arrival: 0ms, prompt_tokens: 1, output_tokens: 1}}]}}
expect: {{explored: violated}}
"""
NAMES = ("mail-first", "mail-down", "mail-four", "mail-class", "mail-twin", "mail-harm", "mail-slow")


@pytest.fixture
def mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of the exhibits, and makes the module mail_variants importable for one test."""
    registry.variants()
    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    monkeypatch.setattr(registry, "_variants", dict(registry._variants))
    monkeypatch.delitem(sys.modules, "tests.vllm.museum.mail_variants", raising=False)
    folder = tmp_path / "exhibits"
    folder.mkdir()
    for name in NAMES:
        text = EXHIBIT.format(name=name, variant=name.upper(), ranks=4 if name == "mail-down" else 3)
        (folder / f"{name}.yaml").write_text(text)
    return folder
