"""Shipped scenarios that say what must come of all their schedules: each is explored, and comes out as it says."""

from __future__ import annotations

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario, load_scenario, scenario_from
from dpsim.scenario.locate import bundled_scenarios, scenario_path
from tests.properties import slow_but

ALL, SOME = 1_000, 40
"""Schedules of a scenario: those of a proof, and where there are too many."""


def says(name: str) -> str | None:
    """What a scenario says of its schedules."""
    explored = load_scenario(scenario_path(name)).expect.explored
    return None if explored is None else explored.verdict


def unmet(scenario: Scenario, most: int) -> str | None:
    return explore_subject(Subject.of(scenario), schedules=most).unmet


NAMES = [name for name in bundled_scenarios() if "/" not in name and says(name) is not None]


EXPENSIVE = ("eplb_steps", "engine_two_waves")
"""Each needs about two seconds of CPU for its schedules, ten times what the others need."""


def test_there_are_small_worlds_with_a_proof() -> None:
    assert sum(says(name) == "proven" for name in NAMES) >= 8


@pytest.mark.parametrize("name", slow_but(NAMES, lambda name: name not in EXPENSIVE))
def test_all_schedules_come_out_as_the_scenario_says(name: str) -> None:
    most = ALL if says(name) == "proven" else SOME
    assert unmet(load_scenario(scenario_path(name)), most) is None


def test_one_that_says_too_much_is_found() -> None:
    """A proof is asked for where there are more schedules than are tried."""
    scenario = load_scenario(scenario_path("eplb_steps"))
    proven = scenario_from({**scenario.model_dump(mode="json"), "expect": {"explored": "proven"}})
    assert unmet(proven, 3) == "expected proven, got sampled"
