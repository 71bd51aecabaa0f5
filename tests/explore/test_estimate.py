"""The estimate of a tree: never above what there is, and exact where all choices are known from the start."""

from __future__ import annotations

from math import isclose, log2

from dpsim.contract.schedule import CutOff
from dpsim.explore.estimate import TreeEstimate, added
from dpsim.explore.strategies.dpor import Dpor
from tests.explore.toy import Toy, at_random

DRAWS = Toy("?x", "?y", "?z")


def estimated(toy: Toy, kind: type[Dpor] = Dpor) -> tuple[int, float]:
    """The runs of a whole search, and what they are estimated to be."""
    chosen, runs = kind(), 0
    while chosen.begin():
        runs, whole = runs + 1, True
        try:
            toy.run(chosen)
        except CutOff:
            whole = False
        chosen.end(whole)
    estimate = TreeEstimate()
    estimate.add(runs, added(chosen.shares))
    assert estimate.total is not None
    return runs, 2**estimate.total


def test_draws_are_known_from_the_start() -> None:
    runs, total = estimated(DRAWS)
    assert runs == 8
    assert isclose(total, 8)


def test_it_is_never_above() -> None:
    """And for most toys within a factor of four."""
    found = [estimated(toy) for seed in range(60) if not (toy := at_random(seed)).mortal]
    assert [pair for pair in found if pair[1] > pair[0] * 1.000001] == []
    assert sum(total * 4 >= runs for runs, total in found) > 0.8 * len(found)


class Even(Dpor):
    """Twin: each run has the same share, as if all places but the last had one choice."""

    def end(self, whole: bool) -> None:
        super().end(whole)
        self.shares[-1:] = [-1.0] if self.shares else []


def test_a_share_that_is_wrong_is_found() -> None:
    runs, total = estimated(DRAWS, Even)
    assert not isclose(total, runs)


def test_the_spread_is_over_units() -> None:
    estimate = TreeEstimate()
    for number in range(1, 101):
        estimate.add(1, -log2(number))
    low, high = (2**one for one in estimate.spread)
    assert (round(low), round(high)) == (11, 90)
