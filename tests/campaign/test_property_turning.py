"""Tests that a failing property names the turning point of its schedule, as `dpsim explore` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.scenario import parse_scenario
from dpsim.testing import holds
from tests.cli.protocols import scenario


def test_a_failing_property_prints_its_turning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError) as raised:
        holds(parse_scenario(scenario("t_lost", 3)))
    assert "\nturning   " in str(raised.value)
