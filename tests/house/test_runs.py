"""Checks that each test belongs to one of three runs: `make test`, `make slow` or `make nightly`. CI omits `make
nightly`.
"""

from __future__ import annotations

import re
import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import refuse_two_runs
from tests import ROOT, night

MAKEFILE = (ROOT / "Makefile").read_text()


def test_each_run_selects_its_own_tests() -> None:
    """The options of `make test` are in pyproject.toml, so a plain `pytest` is the same run."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert options[-2:] == ["-m", "not slow and not nightly"]
    assert re.findall(r"-m pytest(?: -m (\w+))? -n 2", MAKEFILE) == ["", "slow"]
    assert "nightly" in night.command(night.PARTS[-1], 1, ROOT, "2026-11-27")


def test_ci_leaves_the_night_out() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line.removeprefix("exec ") for line in lines if "make " in line and not line.startswith("#")] == [
        "make test",
        "make slow",
    ]


def item(*markers: str) -> Any:
    return SimpleNamespace(nodeid="test_one", get_closest_marker=lambda name: name if name in markers else None)


def test_a_test_with_both_markers_is_refused() -> None:
    refuse_two_runs([item(), item("slow"), item("nightly"), item("gpu", "slow")])
    with pytest.raises(pytest.UsageError, match="test_one: expected the marker slow or the marker nightly; got both"):
        refuse_two_runs([item("slow"), item("slow", "nightly")])
