"""Tests that the model of vLLM uses nothing on the ban list of `tests/determinism`, such as a clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.determinism.ban_list import violations

BEFORE_A_RUN = ("from_vllm", "params")
"""Packages that read files. None of their code runs inside a world."""

FOLDER = ROOT / "dpsim/vllm"
FILES = sorted(path for path in FOLDER.rglob("*.py") if path.relative_to(FOLDER).parts[0] not in BEFORE_A_RUN)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_banned_is_used(path: Path) -> None:
    found = violations(path.read_text(), str(path.relative_to(ROOT)))
    assert not found, "\n" + "\n".join(map(str, found))


def test_the_files_are_found() -> None:
    names = {str(path.relative_to(FOLDER)) for path in FILES}
    assert {"data_parallel/batch.py", "museum/batch.py"} <= names
