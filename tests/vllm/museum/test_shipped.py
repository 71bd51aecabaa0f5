"""Tests the shipped scenarios: certified guarantees hold, equal schedules give equal runs, and labels fit their
grammar.

Tests in `tests/checks`, `tests/campaign`, `tests/sim` and `tests/soundness` cover the checks themselves.
"""

from __future__ import annotations

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import bundled_scenarios, scenario_path
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from tests.checks.held import ALL, found, held_against
from tests.properties import every, slow_but
from tests.sim.test_labels import walked

LARGE = ("whole_engine", "whole_engine_split")
SAMPLE = (every(4, bundled_scenarios()) | {"museum/dead-columns", "museum/dead-rank-all2all"}) - {*LARGE}
"""Every fourth scenario, and the two in which ranks abort."""


@pytest.mark.parametrize("name", slow_but(bundled_scenarios(), SAMPLE.__contains__))
def test_the_checks_find_nothing_that_is_certified_of_a_scenario(name: str) -> None:
    """Each certified guarantee of a run holds.

    A finished run without findings has all guarantees, unless its program has host threads.
    """
    scenario, path = load_scenario(scenario_path(name)), scenario_path(name)
    program, _, prepared = prepare(scenario, path.parent)
    told = world(scenario, program, prepared)
    run = SimBackend().run_program(told, program, prepared)
    passed = held_against(told, run, name)
    assert passed == ALL or program.threaded or not run.finished or found(told, run)


@pytest.mark.parametrize("name", ["quickstart", "skip_one", "pp2_free_in_flight", "museum/m-pp-3"])
def test_shipped_scenarios_are_functions_of_their_schedules(name: str) -> None:
    assert f"{name}" in {one.removesuffix(".yaml") for one in bundled_scenarios()}
    path = scenario_path(name)
    found = explore_subject(Subject.of(load_scenario(path), path.parent), schedules=20)
    assert found.exploration.repeated
    assert not any(klass.startswith("NONDETERMINISM") for klass in (finding.klass for finding in found.findings))


@pytest.mark.parametrize("name", ["museum/m-pp-10", "museum/m-ps-3", "museum/m-ps-8-deep"])
def test_of_scenarios_with_transfers(name: str) -> None:
    labels, wrong = walked(Subject.of(load_scenario(scenario_path(name))))
    assert any(": eager" in label or ": rendezvous" in label for label in labels)
    assert wrong == []


@pytest.mark.runs_once
def test_a_draw_that_does_not_fit_the_schedule_stops_the_replay() -> None:
    """A replay stops with an error if the scenario offers other labels than the recorded schedule contains."""
    path = scenario_path("museum/m-pp-3")
    subject = Subject.of(load_scenario(path), path.parent)
    replay = ScheduleReplay(["rank 0 pp_cpu 0>1 #0: rendezvous"])
    replay.begin()
    with pytest.raises(Mismatch):
        subject.run(replay)
