"""Tests the search within bounds on preemptions and late deliveries.

The tests enumerate every schedule of a small world and count both numbers from their definitions. So they know which
schedules are within the bounds, and compare these with the search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import Candidate, CutOff, Strategy
from dpsim.contract.world import World as WorldOf
from dpsim.explore.strategies.frontier import BoundUse
from dpsim.explore.strategies.within import UNBOUND, Within, within
from dpsim.sim.backend import SimBackend
from tests.answers import Answers
from tests.explore.toy import Toy, at_random
from tests.properties import of_night
from tests.worlds.cases import CASES


class Moment(NamedTuple):
    """One choice of a schedule: the possible steps, the chosen one, and in `free` those that belong to no actor. These
    are deliveries and deaths.
    """

    possible: tuple[str, ...]
    free: frozenset[str]
    chosen: str


class Watching(Strategy):
    """A strategy that takes its choices from a list of answers, and records every choice."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.moments: list[Moment] = []
        self.draws: list[tuple[str, int]] = []
        self.touched: list[tuple[str, Any, int]] = []

    def pick(self, candidates: Sequence[Candidate]) -> int:
        index = self.answers.next(len(candidates))
        free = frozenset(one.label for one in candidates if one.disables or " delivers " in one.label)
        self.moments.append(Moment(tuple(one.label for one in candidates), free, candidates[index].label))
        return index

    def draw(self, label: str, options: Sequence[str]) -> int:
        index = self.answers.next(len(options))
        self.draws.append((label, index))
        return index


def who(label: str) -> str:
    words = label.split(" ")
    return " ".join(words[:2]) if words[0] == "rank" else words[0]


def preemptions(moments: Sequence[Moment]) -> int:
    """Returns the number of preemptions of a schedule, counted from the definition."""
    count = 0
    for at, moment in enumerate(moments):
        before = [one.chosen for one in moments[:at] if one.chosen not in one.free]
        if moment.chosen in moment.free or not before:
            continue
        went_on = {who(label) for label in moment.possible if label not in moment.free}
        count += who(before[-1]) in went_on and who(moment.chosen) != who(before[-1])
    return count


def late_deliveries(moments: Sequence[Moment]) -> int:
    late = set()
    for moment in moments:
        if " delivers " not in moment.chosen:
            late |= {label for label in moment.possible if " delivers " in label}
    return len(late)


class Shown(NamedTuple):
    schedule: Hashable
    sees: Hashable
    used: BoundUse


World = Callable[[Strategy], Hashable]
"""Runs a program under a strategy, and returns what the run showed."""


def toy_world(toy: Toy) -> World:
    return lambda strategy: toy.run(strategy).order


class Polling(Program[Any]):
    """Ranks 0 and 1 poll their mailboxes twice, and rank 2 sends one message to each of them."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        for to in range(2):
            if rank.rank == 2:
                rank.send(to, "box", 1, f"post.{to}")
            else:
                await rank.mailbox("box").poll("look")


def real_world(name: str) -> World:
    case = CASES.get(name)
    what = (WorldOf(3, ()), Polling(), None) if case is None else (case.world, case.program, case.args)

    def run(strategy: Strategy) -> Hashable:
        ran = SimBackend(choose=strategy, memory=False).run_program(*what)
        return tuple(tuple(journal) for journal in ran.journals), tuple(ran.ends)

    return run


def all_of(world: World) -> Iterator[Shown]:
    """Yields every schedule of a world, without any reduction."""
    answers: Answers | None = Answers()
    while answers is not None:
        strategy = Watching(answers)
        sees = world(strategy)
        used = BoundUse(preemptions(strategy.moments), late_deliveries(strategy.moments))
        yield Shown((*(one.chosen for one in strategy.moments), *strategy.draws), sees, used)
        answers = answers.following()


def search(world: World, chosen: Within) -> list[Hashable]:
    """Returns what each whole run of the search showed."""
    seen = []
    while chosen.begin():
        try:
            seen.append(world(chosen))
            whole = True
        except CutOff:
            whole = False
        chosen.end(whole)
    return seen


class Uncached(Within):
    """A search that never cuts a run off because of a known state, so it runs each schedule within the bounds."""

    def _is_met(self) -> bool:
        return False


def disagrees(world: World, kind: type[Within], most: Sequence[BoundUse]) -> list[str]:
    """Returns a line for each of the bounds for which the search is wrong. It must show the same results as the
    enumeration. Without its cache, it must make the same number of runs.
    """
    every, wrong = [*all_of(world)], []
    for bound in most:
        inside = [one for one in every if one.used.within(bound)]
        if set(search(world, kind(bound))) != {one.sees for one in inside}:
            wrong.append(f"{bound}: other outcomes")
        uncached = type("Uncached", (Uncached, kind), {})(bound)
        runs = search(world, uncached)
        if len(runs) != len(inside):
            wrong.append(f"{bound}: {len(runs)} schedules and not {len(inside)}")
        if uncached.exhausted != (len(inside) == len(every)) or uncached.exhausted == uncached.bounded:
            wrong.append(f"{bound}: says exhausted {uncached.exhausted}")
    return wrong


PREEMPTIONS = [BoundUse(number, UNBOUND) for number in (0, 1, 2, 3)]
BOTH = [BoundUse(one, other) for one in (0, 1, UNBOUND) for other in (0, 1, 2)]
DELIVERING = ["polling", "wake_pause 2x1", "dp_wave_skip 2x1", "graph recv 2", "threads wake kill"]


@pytest.mark.parametrize(
    "seeds", [range(0, 15), pytest.param(range(15, 15 + of_night(185)), marks=pytest.mark.nightly)]
)
def test_a_bounded_search_agrees_with_enumeration_of_toy_programs(seeds: range) -> None:
    """The search agrees with the enumeration for random toy programs of two or three actors, with slots, draws and
    deaths.
    """
    assert [
        (seed, found) for seed in seeds if (found := disagrees(toy_world(at_random(seed)), Within, PREEMPTIONS))
    ] == []


@pytest.mark.parametrize("name", DELIVERING)
def test_a_bounded_search_agrees_with_enumeration_of_worlds_with_messages(name: str) -> None:
    assert disagrees(real_world(name), Within, BOTH) == []


class NoActor(Within):
    """A faulty search: its states leave out which actor's turn it is. So it skips a state that has the same steps but
    another actor.
    """

    def _is_met(self) -> bool:
        self._actor, kept = "", self._actor
        try:
            return super()._is_met()
        finally:
            self._actor = kept


class NoBound(Within):
    """A faulty search: it skips a known state even if the earlier visit had used more of a bound. It also does not run
    the cheapest schedules first.
    """

    def _pass(self, chosen: str, key: int | None, others: list[tuple[int, str]]) -> None:
        super()._pass(chosen, key, [(0, option) for _, option in others])

    def _is_met(self) -> bool:
        return self._key() in self._met or super()._is_met()


class CountsAgain(Within):
    """A faulty search: it counts a late message at each step that comes before its delivery, not once."""

    def _made_late(self, one: Candidate, candidates: Sequence[Candidate]) -> set[str]:
        self._late = frozenset()
        return super()._made_late(one, candidates)


class Forgets(Within):
    """A faulty search: at a delivery it forgets whose turn it was. So a preemption directly after a delivery does not
    count.
    """

    def _take(self, one: Candidate, candidates: Sequence[Candidate]) -> None:
        super()._take(one, candidates)
        if " delivers " in one.label:
            self._actor = ""


@pytest.mark.parametrize("twin", [NoActor, NoBound])
def test_a_search_with_a_mistake_is_found(twin: type[Within]) -> None:
    assert any(disagrees(toy_world(at_random(seed)), twin, PREEMPTIONS) for seed in range(40))


@pytest.mark.parametrize("twin", [CountsAgain, Forgets])
def test_a_search_that_counts_differently_is_found(twin: type[Within]) -> None:
    assert disagrees(real_world(DELIVERING[0]), twin, BOTH)


def test_a_word_that_is_no_bound_is_refused() -> None:
    for words in ("within depth=1", "within preemptions=", "within preemptions=-1"):
        with pytest.raises(
            ValueError, match="is no bound; expected one of preemptions, late_deliveries, = and a number"
        ):
            within(words)
