"""Tests that a failing property and its results name the turning point of the schedule, as `dpsim explore` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.campaign.properties import DoesNotHold
from dpsim.scenario import parse_scenario
from dpsim.testing import holds
from tests.cli.protocols import scenario


def test_a_failing_property_prints_its_turning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSIM_RESULTS", "1")
    with pytest.raises(DoesNotHold) as raised:
        holds(parse_scenario(scenario("t_lost", 3)))
    assert "\nturning   " in str(raised.value)
    assert raised.value.results is not None
    told = (raised.value.results / "report.txt").read_text()
    assert "\nturning   " in told
    assert f"\nnext      {raised.value.replay}\n" in told
