"""Runs groups of engines on real processes with gloo: the same forwards, syncs and decisions as on the simulator.

These worlds have no race that changes the result: a front end continues only after all answers have arrived. But the
iteration in which an engine reads a message without effect depends on time (a wake for its own wave). So the test does
not compare the polls of mailboxes.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dpsim.contract.ops import KIND, RawRecord
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.testing.elsewhere import same_on
from tests.records import unplaced

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

GUESSED = {"take", "learned"}
WORLDS = ["engine_waves", "museum/engine-updated-0.24", "museum/engine-drained", "museum/engine-updated"]
STALE = WORLDS[2:]
"""In these worlds, a front end may or may not have received the end of a wave when it sends a request."""


def settled(journal: Iterable[RawRecord]) -> list[RawRecord]:
    return [raw for raw in unplaced(journal) if raw[KIND] not in GUESSED]


def same_as_simulated(scenario: Scenario, really: Scenario | None = None, ranks_alone: bool = False) -> None:
    """Asserts that a scenario has the same journals on gloo and on the simulator.

    `really` replaces the scenario on gloo. With `ranks_alone`, the test does not compare the services.
    """
    real, simulated = run_scenario(really or scenario, "gloo"), run_scenario(scenario)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    for actor in range(real.world.size if ranks_alone else real.world.actors):
        assert settled(real.run.journals[actor]) == settled(simulated.run.journals[actor]), real.world.actor(actor)


@pytest.mark.parametrize("name", [WORLDS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in WORLDS[1:])])
def test_engines_on_gloo_have_the_journals_of_the_simulation(name: str) -> None:
    same_as_simulated(load_scenario(scenario_path(name)), ranks_alone=name in STALE)


def test_published_counts_on_gloo_are_those_of_the_simulation() -> None:
    """The engine of a request depends on a race with published counts, so gloo delivers messages in simulated order."""
    assert len(same_on(load_scenario(scenario_path("engine_balanced")), "gloo", schedules=2)) == 2


@pytest.mark.slow
def test_a_mutant_with_other_messages_differs_on_gloo() -> None:
    """The faulty twin (mutant M-EL-17): every engine reports the end of a wave, which changes the journals."""
    told = load_scenario(scenario_path("museum/m-el-17"))
    healthy = told.model_copy(update={"protocol": told.protocol.model_copy(update={"variant": None})})
    with pytest.raises(AssertionError, match="rank 1"):
        same_as_simulated(healthy, told)
