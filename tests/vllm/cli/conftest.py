"""Fixtures for tests of commands: a scenario of an engine, in an empty working folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim import runner
from tests.cli.commands import write
from tests.vllm.cli.scenarios import HEALTHY


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test fresh backends and an empty working folder."""
    monkeypatch.setattr(runner, "_backends", {})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return write(tmp_path / "three.yaml", HEALTHY)
