"""The sampling strategies keep what their papers promise, counted over fixed seeds; what breaks a promise is seen."""

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
    """In how many runs the pairs of labels (before, after) all come in that order."""
    pairs = [tuple(pair.split(" < ")) for pair in bug]
    count = 0
    for _ in range(runs):
        kind.begin()
        toy.run(kind)
        at = {label: number for number, label in enumerate(kind.schedule)}
        count += all(at[before] < at[after] for before, after in pairs)
        kind.end(True)
    return count


CHAIN = Toy("wx wx wx wx wx", "ry")
"""Depth 1: rank 1 is first. Depth 2: rank 1 comes between two given steps of rank 0."""
FIRST = {"rank 1 ry[0] < rank 0 wx[0]"}
BETWEEN = {"rank 0 wx[2] < rank 1 ry[0]", "rank 1 ry[0] < rank 0 wx[3]"}


@pytest.mark.parametrize(("depth", "bug"), [(1, FIRST), (2, BETWEEN)])
def test_pct_finds_a_bug_as_often_as_it_promises(depth: int, bug: set[str]) -> None:
    """A chance of at least 1 / (n k^(d-1)) a run, n actors and k steps: here 1/2 and 1/12, within three deviations."""
    runs, chance = 2_000, 1 / (2 * 6 ** (depth - 1))
    spread = (runs * chance * (1 - chance)) ** 0.5
    assert hits(CHAIN, Pct(depth=depth), bug, runs) >= runs * chance - 3 * spread


def test_pct_of_too_little_depth_does_not_find_it() -> None:
    """The twin: without a change of priorities, rank 1 runs before all or after all."""
    assert hits(CHAIN, Pct(depth=1), BETWEEN, 500) == 0


ELSEWHERE = Toy("ra rb rc rd re rf rg wx", "rx", *(f"r{name} r{name} r{name}" for name in "ijkl"))
"""A read that races with a write, seven steps and four actors that race with nothing."""
LATE = {"rank 0 wx[7] < rank 1 rx[0]"}


def test_pos_is_not_diluted_by_unrelated_steps() -> None:
    """The read comes after eight others: if it has the lowest of nine priorities."""
    assert 160 < hits(ELSEWHERE, Pos(), LATE, 2_000) < 290  # 2000 / 9 is 222


def test_a_random_walk_is() -> None:
    """The twin: eight times the read is not the one that is taken."""
    assert hits(ELSEWHERE, RandomWalk(), LATE, 2_000) < 20  # 2000 / 2^8 is 8


def test_every_order_of_a_race_is_likely_under_pos(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that must wait for four others to win: 1 in 5; a twin that never draws anew would give far less."""
    runs = 2_000
    toy = Toy("wx", "wx", "wx", "wx", "rx")
    bug = {f"rank {rank} wx[0] < rank 4 rx[0]" for rank in range(4)}
    assert 0.15 * runs < hits(toy, Pos(), bug, runs) < 0.25 * runs


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
def test_the_seed_and_nothing_else(name: str) -> None:
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


def test_told_of_samples() -> None:
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
    """The machine's side of the seam, on the toy: never asked without candidates."""

    class Asked(Fifo):
        def select(self, candidates: Sequence[Candidate]) -> int:
            assert candidates
            return super().select(candidates)

    strategy = Asked()
    strategy.begin()
    assert Toy("as", "as").run(strategy).blocked == ("rank 1 as[0]",)
