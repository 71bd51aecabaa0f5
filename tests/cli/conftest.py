"""Fixtures: scenarios in a separate working folder, and their traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim import runner
from tests.cli.commands import EXPECTED, HEALTHY, SKIP, dpsim_, write


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test its own backends and its own working folder."""
    monkeypatch.setattr(runner, "_backends", {})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return write(tmp_path / "three.yaml", HEALTHY)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A scenario with a violation, without an expectation."""
    return write(tmp_path / "broken.yaml", HEALTHY + SKIP)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A scenario with a violation, which it expects."""
    return write(tmp_path / "planted.yaml", HEALTHY + SKIP + EXPECTED)


@pytest.fixture
def traces(healthy: Path, broken: Path) -> tuple[str, str]:
    dpsim_("run", healthy, "--trace", "a.jsonl")
    dpsim_("run", broken, "--trace", "b.jsonl")
    return "a.jsonl", "b.jsonl"
