"""Tests of the repetition of runs: it is installed, its sample is fair and stable, and it finds programs that are not
deterministic.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import Candidate, Strategy
from dpsim.contract.world import At, Delay, Run, World
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.walks import RandomWalk
from dpsim.sim.backend import SimBackend
from tests import ROOT
from tests.determinism.repeat import NotDeterministic, Repeats, captured, difference
from tests.programs import Scripted, world_of

WORLD = world_of(2, ["dp_cpu"])
PLAIN = getattr(SimBackend.run_program, "__wrapped__", SimBackend.run_program)
"""`run_program` of the backend without the wrapper of this session."""


class Decides(Program[Any]):
    """A program that makes three decisions. Rank 0 decides on zeros; subclasses define the other ranks' values."""

    def value(self, rank: Rank) -> Any:
        return rank.rank

    async def run(self, rank: Rank, prepared: Any) -> None:
        for step in range(3):
            rank.step = step
            rank.decide("what", self.value(rank) if rank.rank and step else 0, "dp_cpu")


class Random(Decides):
    """Faulty: decides on numbers of a generator without a seed."""

    def value(self, rank: Rank) -> Any:
        return random.Random().random()


class Identity(Decides):
    """Faulty: decides on the address of an object."""

    kept: list[Any] = []  # noqa: RUF012  # so that no two objects have the same address

    def value(self, rank: Rank) -> Any:
        self.kept.append(object())
        return id(self.kept[-1])


class Late(Program[Any]):
    """Faulty: the second run ends earlier."""

    turns = itertools.count()

    async def run(self, rank: Rank, prepared: Any) -> None:
        for step in range(4 - next(self.turns) // 2):
            rank.decide("what", step, "dp_cpu")


def run(program: Program[Any], repeats: Repeats | None = None, prepared: Any = None) -> Run:
    checked = (repeats or Repeats(100)).around(PLAIN)
    return checked(SimBackend(), WORLD, program, prepared)


# ---- what it finds


@pytest.mark.parametrize("faulty", [Random, Identity])
def test_a_program_that_is_not_deterministic_is_caught(faulty: type[Program[Any]]) -> None:
    with pytest.raises(NotDeterministic) as caught:
        run(faulty())
    head, place, first, second = str(caught.value).split("\n")
    assert head.startswith(f'the simulation is not deterministic: program "{faulty.__name__}" on 2 ranks')
    assert place == "  rank 1, record 1"
    assert first.startswith("  first:  ('decision', 1, 'main', 'what', 1, ")
    assert second.startswith("  second: ('decision', 1, 'main', 'what', 1, ")
    assert first.removeprefix("  first:  ") != second.removeprefix("  second: ")


IMPORTED = set[str]()


class Imports(Random):
    """Acts otherwise only in its first run, as a rank in a process that finds imports of an earlier one."""

    apart = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        rank.decide("what", f"{rank.rank}" in IMPORTED, "dp_cpu")
        IMPORTED.add(f"{rank.rank}")


def test_only_a_program_with_processes_may_differ_from_its_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    IMPORTED.clear()
    run(Imports())
    monkeypatch.setattr(Random, "apart", True, raising=False)
    with pytest.raises(NotDeterministic):
        run(Random())
    monkeypatch.setattr(Imports, "apart", False)
    IMPORTED.clear()
    with pytest.raises(NotDeterministic):
        run(Imports())


def test_a_journal_that_ends_earlier_is_caught() -> None:
    with pytest.raises(NotDeterministic, match=r"rank 0, record 3\n  first:  \('decision'.*\n  second: \('finished'"):
        run(Late())


class NoMemory(Program[Any]):
    """A program whose second run gets no memory for its last step."""

    turns = itertools.count()

    async def run(self, rank: Rank, prepared: Any) -> None:
        for step in range(3):
            if step == 2 and next(self.turns) >= 2:
                raise MemoryError
            rank.decide("what", step, "dp_cpu")


def test_a_repetition_without_memory_is_no_difference() -> None:
    """Repeats a run that lacks memory. This is no difference, because trouble of the machine is no verdict."""
    assert not run(NoMemory()).lost
    assert run(NoMemory()).lost, "the program gets no memory from its second run on"


def test_programs_that_are_deterministic_pass() -> None:
    repeats = Repeats(100)
    assert run(Decides(), repeats).finished
    assert (repeats.runs, repeats.repeated, repeats.left_alone) == (1, 1, [])


def test_ends_and_times_are_compared_too() -> None:
    one, other = run(Decides(), Repeats(0)), run(Decides(), Repeats(0))
    assert difference(one, other) is None
    other.elapsed_ns += 1
    assert difference(one, other) == f"  elapsed_ns\n  first:  {one.elapsed_ns}\n  second: {other.elapsed_ns}"
    other.journals[1].pop()
    assert str(difference(one, other)).endswith("\n  second: no record: the journal ends")


# ---- under a strategy


class Polls(Program[Any]):
    """Rank 0 polls for a message of rank 1, and its next calls depend on the result."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank:
            rank.send(0, "box", 1, "send")
            return
        for step in range(3):
            rank.step = step
            rank.decide("what", await rank.mailbox("box").poll("poll"), "dp_cpu")


class Forgets(Polls):
    """Faulty: every other run polls once more."""

    turns = itertools.count()

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank == 0 and next(self.turns) % 2:
            await rank.mailbox("box").poll("poll")
        await super().run(rank, prepared)


class Draws(Polls):
    """Faulty: the schedule fits, but the decision differs."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        await super().run(rank, prepared)
        rank.decide("what", random.Random().random(), "dp_cpu")


def searched(program: Program[Any], repeats: Repeats) -> list[tuple[list[str], Run]]:
    """Returns all runs of an exploration with their schedules."""
    search, found = Dpor(), []
    while search.begin():
        backend = SimBackend(choose=search)
        journals = repeats.around(PLAIN)(backend, WORLD, program, None)
        assert backend.strategy is search
        found.append((list(search.schedule), journals))
        search.end(whole=True)
    assert search.exhausted
    return found


def test_a_run_under_a_strategy_is_repeated_along_its_schedule_and_the_strategy_notices_nothing() -> None:
    repeats = Repeats(100)
    all_of_them, alone = searched(Polls(), repeats), searched(Polls(), Repeats(0))
    assert all_of_them == alone
    assert len(alone) == repeats.repeated == 4, "the message comes before one of three polls, or after them"
    assert repeats.left_alone == []


@pytest.mark.parametrize(("faulty", "says"), [
    (Forgets, r"the run ended after choice|choice \d+ of \d+ of the schedule: expected"),
    (Draws, r"rank \d, record \d+\n  first:  \('decision'"),
])  # fmt: skip
def test_a_program_that_does_not_follow_its_schedule_is_caught(faulty: type[Program[Any]], says: str) -> None:
    with pytest.raises(NotDeterministic, match=says):
        searched(faulty(), Repeats(100))


def test_a_strategy_that_runs_on_without_a_beginning_is_repeated_from_where_the_run_began() -> None:
    search, repeats = RandomWalk(seed=1), Repeats(100)
    for _ in range(5):
        repeats.around(PLAIN)(SimBackend(choose=search), WORLD, Polls(), None)
    assert (repeats.repeated, repeats.left_alone) == (5, [])


class Unknown(Strategy):
    """A strategy that records no schedule."""

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return 0

    def draw(self, label: str, options: Sequence[str]) -> int:
        return 0


@pytest.mark.parametrize(("choose", "repeated"), [(Unknown(), 0), (lambda label, options: 0, 1)])
def test_a_strategy_that_notes_nothing_is_left_alone_unless_it_is_a_function(choose: Any, repeated: int) -> None:
    repeats = Repeats(100)
    repeats.around(PLAIN)(SimBackend(choose=choose), WORLD, Polls(), None)
    assert (repeats.repeated, len(repeats.left_alone)) == (repeated, 1 - repeated)


# ---- what it does not repeat


def test_a_program_that_writes_into_its_test_runs_once() -> None:
    seen: list[int] = []
    repeats = Repeats(100)

    async def writes(rank: Rank) -> None:
        seen.append(rank.rank)

    async def reads(rank: Rank) -> None:
        assert len(seen) == 2

    run(Scripted(writes), repeats)
    assert (seen, repeats.repeated) == ([0, 1], 0)
    assert len(repeats.left_alone) == 1
    run(Scripted(reads), repeats)
    assert repeats.repeated == 1


def test_captured_state_is_found_through_functions_and_objects() -> None:
    box: dict[str, list[int]] = {"a": []}

    def inner() -> None:
        box["a"].append(1)

    async def script(rank: Rank) -> None:
        inner()

    program = Scripted(script)
    before = captured(program)
    inner()
    assert captured(program) != before


def test_classes_that_a_test_makes_are_looked_into() -> None:
    ran: list[int] = []

    class Step:
        def run(self, number: int) -> None:
            ran.append(number)

    prepared = {"not": "looked into"}, Step, Step()
    before = captured((Decides(), prepared))
    assert captured((Decides(), prepared)) == before
    Step().run(1)
    assert captured((Decides(), prepared)) != before


def test_a_test_can_ask_for_single_runs() -> None:
    repeats = Repeats(100, active=False)
    run(Random(), repeats)
    assert (repeats.runs, repeats.repeated) == (1, 0)


# ---- the sample


def worlds() -> list[World]:
    return [
        World(2, WORLD.communicators, delays=(Delay(rank, At("dp.agree", ordinal), 1_000),))
        for rank in range(2)
        for ordinal in range(1_000)
    ]


def sample() -> str:
    repeats = Repeats(5)
    return "".join("01"[repeats.chosen(world, Decides())] for world in worlds())


def test_about_five_in_a_hundred_runs_are_repeated() -> None:
    assert 70 <= sample().count("1") <= 130
    assert not any(Repeats(0).chosen(world, Decides()) for world in worlds())
    assert all(Repeats(100).chosen(world, Decides()) for world in worlds())


def test_a_world_that_runs_often_is_sampled_too() -> None:
    repeats = Repeats(5)
    often = [repeats.chosen(WORLD, Decides()) for _ in range(2_000)]
    assert 70 <= sum(often) <= 130
    repeats.begin("", active=True)
    assert [repeats.chosen(WORLD, Decides()) for _ in range(2_000)] == often
    repeats.begin("another test", active=True)
    assert [repeats.chosen(WORLD, Decides()) for _ in range(2_000)] != often


@pytest.mark.slow
def test_the_sample_is_the_same_in_another_process() -> None:
    script = "from tests.determinism.test_repeat import sample; print(sample())"
    told = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=told, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == sample()


def test_the_repetition_of_runs_is_installed_in_this_session(
    session_repeats: Repeats, request: pytest.FixtureRequest
) -> None:
    if not session_repeats.percent:
        pytest.skip("switched off: DPSIM_REPEAT is 0")
    before = session_repeats.runs
    SimBackend().run_program(WORLD, Decides(), None)
    assert session_repeats.runs == before + 1


@pytest.mark.runs_once
def test_the_marker_that_switches_repetition_off_works(session_repeats: Repeats) -> None:
    assert not session_repeats.active
