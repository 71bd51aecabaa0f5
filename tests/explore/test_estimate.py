"""Tests the estimate of the number of runs of a DPOR search, from the shares of the runs so far.

A run's share is the part of the search tree that it accounts for. It is exact if the search knows all choices of a
place at once, as for draws, and otherwise never too small.
"""

from __future__ import annotations

from math import isclose, log2

from dpsim.contract.schedule import CutOff
from dpsim.explore.estimate import TreeEstimate, added
from dpsim.explore.strategies.dpor import Dpor
from tests.explore.toy import Toy, at_random

DRAWS = Toy("?x", "?y", "?z")


def searched(toy: Toy, kind: type[Dpor] = Dpor) -> list[float]:
    """Returns the shares of all runs of a search to its end."""
    chosen = kind()
    while chosen.begin():
        whole = True
        try:
            toy.run(chosen)
        except CutOff:
            whole = False
        chosen.end(whole)
    return chosen.shares


def shares_of(toy: Toy, kind: type[Dpor] = Dpor) -> float:
    return added(searched(toy, kind))


def estimated(toy: Toy, kind: type[Dpor] = Dpor) -> tuple[int, float]:
    """Returns the number of runs of a search to its end, and the estimate of that number."""
    shares = searched(toy, kind)
    estimate = TreeEstimate()
    estimate.add(len(shares), added(shares))
    assert estimate.total is not None
    return len(shares), 2**estimate.total


def test_draws_are_known_from_the_start() -> None:
    runs, total = estimated(DRAWS)
    assert runs == 8
    assert isclose(total, 8)


def test_shares_are_never_too_small() -> None:
    """The shares of all runs of a search add up to one or more, and for most toy programs to less than four."""
    toys = [toy for seed in range(60) if not (toy := at_random(seed)).mortal]
    sums = [2 ** shares_of(toy) for toy in toys]
    assert min(sums) > 0.999999
    assert sum(one < 4 for one in sums) > 0.8 * len(sums)


class Even(Dpor):
    """A faulty search: each run gets the same share."""

    def end(self, whole: bool) -> None:
        super().end(whole)
        self.shares[-1:] = [-5.0] if self.shares else []


def test_a_share_that_is_wrong_is_found() -> None:
    runs, total = estimated(DRAWS, Even)
    assert not isclose(total, runs)


def test_the_spread_is_over_units() -> None:
    estimate = TreeEstimate()
    for number in range(101, 165):
        estimate.add(1, -log2(number))
    low, high = (2**one for one in estimate.spread)
    assert (round(low), round(high)) == (107, 158)


def test_the_estimate_is_never_below_the_runs_made() -> None:
    """The estimate uses only the last units, so early shares that were too large no longer count. It is never below the
    number of runs, and at the end it is that number.
    """
    estimate = TreeEstimate()
    for _ in range(100):
        estimate.add(64, -2.0)
    assert estimate.words() == "about 6,400 in all (6,400 to 6,400)"
    for _ in range(64):
        estimate.add(64, -11.0)
    assert estimate.words() == "about 131,072 in all (131,072 to 131,072)"
    estimate.over = True
    assert estimate.words() == "about 10,496 in all (10,496 to 10,496)"
    assert estimate.words(10_500) == "about 10,500 in all (10,500 to 10,500)", "units without a result count, too"


def test_samples_are_not_in_the_tree() -> None:
    """A portfolio runs them beside the tree, so they add to its estimate. The twin took the tree for all schedules."""
    estimate = TreeEstimate()
    estimate.add(345, -1.0)
    estimate.beside = 406
    assert estimate.words(751) == "about 1,096 in all (1,096 to 1,096)"
    assert estimate.total is not None
    assert 2**estimate.total < 751
