"""Estimates how many schedules a search has in all, from the part of its tree that it has visited.

    estimate = TreeEstimate()
    estimate.add(runs=64, share=-9.5)       # a unit of 64 runs, which are 2 ** -9.5 of the tree
    estimate.total, estimate.spread         # log2 of the number, and of its lowest and highest tenth over units

A place with two choices gives half of its share of the tree to each, and so on to the end of the run. So some runs
divided by their shares estimate the number of all runs. DPOR finds more choices at a place later, so the shares of
early runs are too large. Therefore the estimate uses only the last units, and is never below the number of runs so far.
The total of a command also includes the samples of a portfolio, which are not in the tree.

Prior art: Knuth, "Estimating the efficiency of backtrack programs" (1975). This is the weighted backtrack estimator of
Kilby, Slaney, Thiebaux and Walsh, "Estimating search tree size" (AAAI 2006).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf, log2

UNITS = 64


class TreeEstimate:
    """The estimate of a tree, in logarithms because a float overflows. `beside`: samples outside of the tree."""

    def __init__(self) -> None:
        self.over = False
        self.beside = 0
        self._runs = 0
        self._units: deque[tuple[int, float]] = deque(maxlen=UNITS)

    def add(self, runs: int, share: float) -> None:
        """Adds a unit. `runs`: its number of runs. `share`: log2 of their share of the tree."""
        if runs and share > -inf:
            self._runs += runs
            self._units.append((runs, share))

    @property
    def total(self) -> float | None:
        """The estimated log2 of the number of runs; None without any unit."""
        if not self._runs or self.over:
            return log2(self._runs) if self._runs else None
        runs = sum(runs for runs, _ in self._units)
        return max(log2(self._runs), log2(runs) - added(share for _, share in self._units))

    @property
    def spread(self) -> tuple[float, float]:
        """The estimate of the lowest tenth of units, and that of the highest, as log2."""
        least = log2(max(self._runs, 1))
        units = sorted(max(least, log2(runs) - share) for runs, share in self._units)
        return (least, least) if self.over or not units else (units[len(units) // 10], units[-1 - len(units) // 10])

    def of_all(self, ran: int = 0) -> tuple[float, float, float] | None:
        """Returns log2 of all schedules, its lowest and its highest tenth, at least `ran`; None without a unit."""
        if self.total is None:
            return None
        beside, least = (log2(count) if count else -inf for count in (self.beside, ran))
        total, low, high = (max(least, added((one, beside))) for one in (self.total, *self.spread))
        return total, low, high

    def words(self, ran: int = 0) -> str:
        """Returns the estimate in words; an empty text without any unit. `ran`: as for `of_all`.

        >>> estimate = TreeEstimate(); estimate.add(1, -3); estimate.add(2, -1); estimate.words(), estimate.words(7)
        ('about 5 in all (4 to 8)', 'about 7 in all (7 to 8)')
        """
        known = self.of_all(ran)
        if known is None:
            return ""
        total, low, high = map(number, known)
        return f"about {total} in all ({low} to {high})"


def added(shares: Iterable[float]) -> float:
    """Returns log2 of the sum of the numbers whose log2 are given."""
    known = [*shares]
    most = max(known, default=-inf)
    return most if most == -inf else most + log2(sum(2 ** (one - most) for one in known))


def number(exponent: float) -> str:
    """Returns a power of two in words.

    >>> number(10), number(40)
    ('1,024', '10^12')
    """
    return f"{round(2**exponent):,}" if exponent < 30 else f"10^{round(exponent * log2(2) / log2(10))}"
