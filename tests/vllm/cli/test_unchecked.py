"""Tests the notes of `dpsim run` and `dpsim explore` after a run or search that holds.

Each note names something that the checks cannot see. An example is a decision that no rank records. A program without
such gaps gets no note.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.cli.explore_text import as_text
from dpsim.cli.unchecked import NO_DECISION, NO_MARK, NO_PROBE, NO_STEP_SET, TIME_SLEEP, decision_of, unchecked
from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import CommunicatorSpec
from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from


class How(BaseModel):
    """Selects what the program leaves out or does wrong."""

    how: Literal["healthy", "silent", "stepless", "crash"]


class Unchecked(Program[Arguments[How]]):
    """Two ranks meet in a barrier. `how` selects what the program leaves out or does wrong."""

    Params = How

    @staticmethod
    def ranks(params: How) -> int:
        return 2

    async def run(self, rank: Rank, args: Arguments[How]) -> None:
        how = args.params.how
        if how != "stepless":
            rank.step = 0
        await rank.host("world").barrier(site="meet")
        if how != "silent":
            rank.decide("met", True, "world")
        if how == "crash":
            raise ValueError(how)


@register_protocol("unchecked")
class Awake(Unchecked):
    """Registers `Unchecked`, which never sleeps."""


@register_protocol("unchecked_sleeper")
class Sleeper(Unchecked):
    """A program with a method that sleeps by the host's clock.

    The note has to name the method although `run` never calls it.
    """

    def pause(self) -> None:
        time.sleep(0)


class Linked(Unchecked):
    """Three ranks with their own communicators, and none of kind `world`.

    `how` selects whether a rank records a decision.
    """

    of: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @staticmethod
    def ranks(params: How) -> int:
        return 3

    def groups(self, args: Arguments[How]) -> list[Any]:
        return [(kind, "host", [members]) for kind, members in self.of]

    async def run(self, rank: Rank, args: Arguments[How]) -> None:
        rank.step = 0
        for kind, members in self.of:
            if rank.rank in members:
                await rank.host(kind).barrier(site=kind)
                if args.params.how == "healthy" and kind == self.of[-1][0]:
                    rank.decide("met", True, kind)


@register_protocol("unchecked_ring")
class Ring(Linked):
    """The last communicator contains all three ranks."""

    of = (("link1", (0, 1)), ("all", (0, 1, 2)))


@register_protocol("unchecked_links")
class Links(Linked):
    """No communicator contains all three ranks."""

    of = (("link1", (0, 1)), ("solo", (2,)))


@register_protocol("unchecked_probes")
class Probed(Unchecked):
    """It reaches its probe `met` if `how` is healthy, and never its probe `late`."""

    probes = ("met", "late")

    async def run(self, rank: Rank, args: Arguments[How]) -> None:
        await super().run(rank, args)
        if args.params.how == "healthy":
            rank.probe("met")


def ran(protocol: str, how: str) -> Result:
    params: dict[str, Any] = {"name": protocol, "params": {"how": how}}
    return run_scenario(scenario_from({"name": "tested", "protocol": params}))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("healthy", []),
        ("silent", [f"note: {NO_DECISION}" + 'rank.decide("label", value, "world")']),
        ("stepless", [f"note: {NO_STEP_SET}"]),
        ("crash", []),
    ],
)
def test_a_note_names_what_a_program_keeps_from_the_checks(how: str, says: list[str]) -> None:
    """Each omission gives its note. A run with findings has a report instead, and no note."""
    assert unchecked(ran("unchecked", how)) == says


@pytest.mark.parametrize(
    ("protocol", "how", "says"),
    [
        ("unchecked", "healthy", []),
        ("unchecked", "silent", [f"note: {NO_DECISION}" + 'rank.decide("label", value, "world")']),
        ("unchecked", "crash", []),
        ("unchecked_probes", "healthy", []),
        ("unchecked_probes", "stepless", [f"note: {NO_PROBE}met, late"]),
    ],
)
def test_a_search_has_notes_as_well(protocol: str, how: str, says: list[str]) -> None:
    """A search with a failure has a report instead."""
    scenario = scenario_from({"name": "tested", "protocol": {"name": protocol, "params": {"how": how}}})
    printed = as_text(explore_subject(Subject.of(scenario), "dpor"), scenario)
    assert re.findall("^note: .*", printed, re.MULTILINE) == says


def test_the_note_for_a_torch_program_names_the_mark() -> None:
    torch = SimpleNamespace(name="torch", plain_params={}), SimpleNamespace(communicators=(), size=2)
    run = SimpleNamespace(journals=[])
    result = SimpleNamespace(verdict="held", scenario=SimpleNamespace(protocol=torch[0]), world=torch[1], run=run)
    assert f"note: {NO_MARK}" in unchecked(result)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("protocol", "call"),
    [
        ("unchecked_ring", 'rank.decide("label", value, "all")'),
        ("unchecked_links", 'rank.decide("label", value, "link1") on ranks 0, 1'),
    ],
)
def test_the_note_names_a_communicator_that_exists(protocol: str, call: str) -> None:
    assert unchecked(ran(protocol, "silent")) == [f"note: {NO_DECISION}{call}"]
    assert unchecked(ran(protocol, "healthy")) == []  # a program that follows the note's advice


def test_the_note_with_a_kind_of_several_communicators_and_with_none() -> None:
    pairs = [CommunicatorSpec("tp", f"tp_{at}", "host", (at, at + 1)) for at in (0, 2)]
    assert decision_of(pairs, range(4)) == 'rank.decide("label", value, "tp")'
    assert "this program has none" in decision_of([], range(4))


def test_a_note_that_always_names_world_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faulty twin: the note always names `world`, and a program without that communicator would then raise KeyError."""
    monkeypatch.setattr("dpsim.cli.unchecked.decision_of", lambda communicators, ranks: 'rank.decide(..., "world")')
    with pytest.raises(AssertionError):
        test_the_note_names_a_communicator_that_exists("unchecked_ring", 'rank.decide("label", value, "all")')


def test_a_sleep_by_the_clock() -> None:
    assert unchecked(ran("unchecked_sleeper", "healthy")) == [f"note: Sleeper.pause {TIME_SLEEP}"]


def test_a_program_without_params_gets_no_note() -> None:
    """A program without parameters may legally record no decision, as a start-up does, so it gets no note."""
    result = ran("unchecked", "silent")
    scenario: Any = SimpleNamespace(protocol=SimpleNamespace(name="unchecked", plain_params=None))
    assert unchecked(replace(result, scenario=scenario)) == []
