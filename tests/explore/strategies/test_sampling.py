"""Tests that the sampling strategies find bugs as often as their papers promise, counted over fixed seeds.

The strategies are the random walk, PCT and POS. Where a strategy or a setting lacks a promise, a second test shows that
the count is then lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpsim.contract.schedule import Candidate, Strategy
from dpsim.explore import STRATEGIES, Budget, Problem, explore, search
from dpsim.explore.strategies.pct import Pct
from dpsim.explore.strategies.pos import Pos
from dpsim.explore.strategies.walks import Fifo, RandomWalk, Sampling
from tests.explore.toy import Toy


def hits(toy: Toy, kind: Sampling, bug: set[str], runs: int) -> int:
    """Returns in how many of `runs` runs all pairs of `bug` have their order. A pair is a text "label < label"."""
    pairs = [tuple(pair.split(" < ")) for pair in bug]
    count = 0
    for _ in range(runs):
        kind.begin()
        toy.run(kind)
        at = {label: number for number, label in enumerate(kind.schedule)}
        count += all(at[before] < at[after] for before, after in pairs)
        kind.end(True)
    return count


class Wait:
    """An optional wait. `counts`: its answer may show something new."""

    label, bit, ended, met = "send", 0, True, None

    def __init__(self, counts: bool) -> None:
        self.counts = counts


@pytest.mark.parametrize("kind", [RandomWalk, Pct, Pos])
def test_only_a_wait_that_counts_is_drawn(kind: type[Sampling]) -> None:
    """A wait behind a rendezvous is one, too, and takes no random number. One that counts has both answers."""
    strategy = kind()
    strategy.begin()
    before = strategy.random.getstate()
    assert all(strategy.waits(Wait(counts=False)) for _ in range(20))
    assert strategy.random.getstate() == before
    assert {strategy.waits(Wait(counts=True)) for _ in range(20)} == {True, False}


CHAIN = Toy("wx wx wx wx wx", "ry")
"""Rank 0 makes five writes, and rank 1 one read. A bug of depth 1 needs the read first. A bug of depth 2 needs the read
between two given writes.
"""
FIRST = {"rank 1 ry[0] < rank 0 wx[0]"}
BETWEEN = {"rank 0 wx[2] < rank 1 ry[0]", "rank 1 ry[0] < rank 0 wx[3]"}


@pytest.mark.parametrize(("depth", "bug"), [(1, FIRST), (2, BETWEEN)])
def test_pct_finds_a_bug_as_often_as_it_promises(depth: int, bug: set[str]) -> None:
    """With n actors and k steps, a run of PCT finds a bug of depth d with a probability of at least 1 / (n k^(d-1)).

    Here this is 1/2 and 1/12. The number of hits may be at most three standard deviations lower.
    """
    runs, chance = 2_000, 1 / (2 * 6 ** (depth - 1))
    spread = (runs * chance * (1 - chance)) ** 0.5
    assert hits(CHAIN, Pct(depth=depth), bug, runs) >= runs * chance - 3 * spread


def test_pct_of_too_little_depth_does_not_find_it() -> None:
    """With depth 1, PCT never changes a priority, so the read comes before all writes or after all of them."""
    assert hits(CHAIN, Pct(depth=1), BETWEEN, 500) == 0


ELSEWHERE = Toy("ra rb rc rd re rf rg wx", "rx", *(f"r{name} r{name} r{name}" for name in "ijkl"))
"""Only the last write of rank 0 and the read of rank 1 race. The other seven steps of rank 0, and four more actors,
race with nothing.
"""
LATE = {"rank 0 wx[7] < rank 1 rx[0]"}


def test_pos_is_not_diluted_by_unrelated_steps() -> None:
    """POS gives each step a random priority. The read comes after the eight steps of rank 0 if it has the lowest of
    nine priorities, so in one of nine runs.
    """
    assert 160 < hits(ELSEWHERE, Pos(), LATE, 2_000) < 290  # 2000 / 9 is 222


def test_a_random_walk_seldom_finds_the_bug_that_pos_finds() -> None:
    """A random walk finds the bug far less often than POS. At each of the eight steps of rank 0, it must not choose the
    read.
    """
    assert hits(ELSEWHERE, RandomWalk(), LATE, 2_000) < 20  # 2000 / 2^8 is 8


ALTERNATING = Toy("wx wx wx", "wx wx wx")
"""Two ranks with three writes each, which all race. In the order of the bug, the ranks alternate."""
IN_TURN = {f"rank 0 wx[{step}] < rank 1 wx[{step}]" for step in range(3)}
IN_TURN |= {f"rank 1 wx[{step}] < rank 0 wx[{step + 1}]" for step in range(2)}


class KeepsPriorities(Pos):
    """Faulty twin: ops that race with a chosen op keep their priorities, so they draw no new ones."""

    class Kept(dict[str, float]):
        def __delitem__(self, label: str) -> None:
            pass

    def begin(self) -> bool:
        begun = super().begin()
        self._priority = self.Kept()
        return begun


def test_every_order_of_a_race_is_likely_under_pos() -> None:
    """Racing ops draw new priorities, so each of the five choices of the alternating order has a chance of 1/2.

    Without new draws, the six priorities must decrease from write to write, in one of 720 runs.
    """
    assert 40 < hits(ALTERNATING, Pos(), IN_TURN, 2_000) < 90  # 2000 / 2^5 is 62
    assert hits(ALTERNATING, KeepsPriorities(), IN_TURN, 2_000) < 12  # 2000 / 720 is 3


@pytest.mark.parametrize("kind", [RandomWalk, Pct, Pos])
def test_draws_take_every_option(kind: type[Sampling]) -> None:
    strategy, seen = kind(), set[str]()
    for _ in range(40):
        strategy.begin()
        Toy("?x").run(strategy)
        seen.add(strategy.schedule[0])
        strategy.end(True)
    assert seen == {"rank 0 draw[0]: reads", "rank 0 draw[0]: writes"}


@pytest.mark.parametrize("name", ["random", "pct", "pos"])
def test_only_the_seed_determines_the_schedules(name: str) -> None:
    def schedules(seed: int) -> list[list[str]]:
        strategy, found = search(name, seed), []
        for _ in range(20):
            strategy.begin()
            Toy("wx wx", "rx rx", "?x").run(strategy.current)
            found.append(strategy.current.schedule)
            strategy.end(True)
        return found

    assert schedules(3) == schedules(3)
    assert schedules(3) != schedules(4)
    assert len({*map(tuple, schedules(3))}) > 5, "the runs differ from one another"


def test_fifo_is_one_schedule() -> None:
    found, schedule = Fifo(), list[str]()

    def once(strategy: Strategy) -> Sequence[Problem]:
        Toy("wx wx", "rx rx", mortal=(1,)).run(strategy)
        schedule.extend(found.schedule)
        return []

    result = explore(once, found, Budget(100))
    assert (result.verdict, result.runs) == ("sampled", 1)
    assert (len(schedule), schedule[-1]) == (5, "kill rank 1"), "a death comes last"
    assert result.summary() == "sampled: holds in 1 schedule; there may be others; 1 schedule (1 class)"


def test_a_summary_of_samples() -> None:
    def once(strategy: Strategy) -> Sequence[Problem]:
        Toy("wx", "rx").run(strategy)
        return []

    result = explore(once, RandomWalk(), Budget(150))
    assert (len(result.classes), sum(result.fresh), result.new_per_hundred) == (2, 2, 0.0)
    assert result.summary() == (
        "sampled: holds in 150 schedules; 0 of the last 100 were of a new class; 150 schedules (2 classes)"
    )


def test_strategies_by_name() -> None:
    assert next(iter(STRATEGIES)) == "portfolio"
    for name in STRATEGIES:
        assert search(name, 5).name == name
    with pytest.raises(ValueError, match=r"there is no strategy 'dpo'; did you mean 'dpor'\? \(there are portfolio, "):
        search("dpo")


def test_no_options_are_not_asked_about() -> None:
    """The toy machine keeps its side of the interface: it never asks a strategy to choose if there are no
    candidates.
    """

    class Asked(Fifo):
        def select(self, candidates: Sequence[Candidate]) -> int:
            assert candidates
            return super().select(candidates)

    strategy = Asked()
    strategy.begin()
    assert Toy("as", "as").run(strategy).blocked == ("rank 1 as[0]",)
