"""Bounds, held against brute force: every schedule of a small world, counted from the definition."""

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
from tests.worlds.cases import CASES


class Moment(NamedTuple):
    """A pick: what could happen, and what did. `free`: deliveries and deaths."""

    possible: tuple[str, ...]
    free: frozenset[str]
    chosen: str


class Watching(Strategy):
    """Gives answers, and notes the moments of a run."""

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
    """From the definition, over a whole schedule."""
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
"""Runs under a strategy; what is seen."""


def toy_world(toy: Toy) -> World:
    return lambda strategy: toy.run(strategy).order


class Polling(Program[Any]):
    """Two ranks look into their mailboxes twice, and the third posts to both."""

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
    """Every schedule, without any reduction."""
    answers: Answers | None = Answers()
    while answers is not None:
        strategy = Watching(answers)
        sees = world(strategy)
        used = BoundUse(preemptions(strategy.moments), late_deliveries(strategy.moments))
        yield Shown((*(one.chosen for one in strategy.moments), *strategy.draws), sees, used)
        answers = answers.following()


def search(world: World, chosen: Within) -> list[Hashable]:
    """What each whole run shows."""
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
    """All schedules, one by one."""

    def _is_met(self) -> bool:
        return False


def disagrees(world: World, kind: type[Within], most: Sequence[BoundUse]) -> list[str]:
    """Bounds for which a search finds other outcomes than brute force, or another number of schedules."""
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


@pytest.mark.parametrize("seeds", [range(0, 15), pytest.param(range(15, 200), marks=pytest.mark.nightly)])
def test_toys(seeds: range) -> None:
    """Two or three actors, with slots, draws and deaths."""
    assert [
        (seed, found) for seed in seeds if (found := disagrees(toy_world(at_random(seed)), Within, PREEMPTIONS))
    ] == []


@pytest.mark.parametrize("name", DELIVERING)
def test_worlds_with_messages(name: str) -> None:
    assert disagrees(real_world(name), Within, BOTH) == []


class NoActor(Within):
    """Twin: two prefixes of one class count as one, for any actor at its turn."""

    def _is_met(self) -> bool:
        self._actor, kept = "", self._actor
        try:
            return super()._is_met()
        finally:
            self._actor = kept


class NoBound(Within):
    """Twin: a place counts as met though more of a bound was used there before. All nodes are of one layer."""

    def _pass(self, chosen: str, key: int | None, others: list[tuple[int, str]]) -> None:
        super()._pass(chosen, key, [(0, option) for _, option in others])

    def _is_met(self) -> bool:
        return self._key() in self._met or super()._is_met()


class CountsAgain(Within):
    """Twin: a late message counts at each step that comes before it."""

    def _made_late(self, one: Candidate, candidates: Sequence[Candidate]) -> set[str]:
        self._late = frozenset()
        return super()._made_late(one, candidates)


class Forgets(Within):
    """Twin: who had the turn is forgotten at a delivery, so that a preemption may hide behind one."""

    def _take(self, one: Candidate, candidates: Sequence[Candidate]) -> None:
        super()._take(one, candidates)
        if " delivers " in one.label:
            self._actor = ""


@pytest.mark.parametrize("twin", [NoActor, NoBound])
def test_a_search_with_a_mistake_is_found(twin: type[Within]) -> None:
    assert any(disagrees(toy_world(at_random(seed)), twin, PREEMPTIONS) for seed in range(40))


@pytest.mark.parametrize("twin", [CountsAgain, Forgets])
def test_a_search_that_counts_otherwise_is_found(twin: type[Within]) -> None:
    assert disagrees(real_world(DELIVERING[0]), twin, BOTH)


def test_what_is_no_bound() -> None:
    for words in ("within depth=1", "within preemptions=", "within preemptions=-1"):
        with pytest.raises(
            ValueError, match="is no bound; expected one of preemptions, late_deliveries, = and a number"
        ):
            within(words)
