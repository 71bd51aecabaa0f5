"""A scenario of an engine, in the working folder of one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim import runner
from tests.cli.commands import write
from tests.vllm.cli.scenarios import HEALTHY


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has other backends and another working folder."""
    monkeypatch.setattr(runner, "_backends", {})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return write(tmp_path / "three.yaml", HEALTHY)
