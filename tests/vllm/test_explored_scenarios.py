"""Explores the shipped scenarios that expect a result of exploring, and compares the result."""

from __future__ import annotations

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario, load_scenario, scenario_from
from dpsim.scenario.locate import bundled_scenarios, scenario_path
from tests.properties import slow_but

ALL, SOME = 1_000, 40
"""The limit of schedules for a proof, and for scenarios with too many schedules."""


def says(name: str) -> str | None:
    """Returns the verdict of exploring that a scenario expects; None if it expects none."""
    explored = load_scenario(scenario_path(name)).expect.explored
    return None if explored is None else explored.verdict


def unmet(scenario: Scenario, most: int) -> str | None:
    return explore_subject(Subject.of(scenario), schedules=most).unmet


NAMES = [name for name in bundled_scenarios() if "/" not in name and says(name) is not None]


EXPENSIVE = ("eplb_steps", "engine_two_waves", "dbo_small", "engine_watched_small")
"""Each needs one or two seconds of CPU, far more than the others."""


def test_there_are_small_worlds_with_a_proof() -> None:
    assert sum(says(name) == "proven" for name in NAMES) >= 8


@pytest.mark.parametrize("name", slow_but(NAMES, lambda name: name not in EXPENSIVE))
def test_all_schedules_of_a_scenario_have_the_verdict_that_it_expects(name: str) -> None:
    most = ALL if says(name) == "proven" else SOME
    assert unmet(load_scenario(scenario_path(name)), most) is None


def test_a_scenario_that_expects_too_much_is_found() -> None:
    """Faulty twin: a scenario that expects a proof fails if the exploration stops before it has run all schedules."""
    scenario = load_scenario(scenario_path("eplb_steps"))
    proven = scenario_from({**scenario.model_dump(mode="json"), "expect": {"explored": "proven"}})
    assert unmet(proven, 3) == "expected proven, got sampled"
