"""How many schedules a search has in all, by what it has seen of its tree.

    estimate = TreeEstimate()
    estimate.add(runs=64, share=-9.5)       # of a unit: these runs are 2 ** -9.5 of the tree
    estimate.total, estimate.spread         # log2 of the number, and of its lowest and highest tenth over units

A run has a share of the tree: half of what lies behind a place with two choices, and so on down to its end. Shares of
all runs add up to one, so some runs by their shares are an estimate of the number. DPOR finds more choices at a place
while it explores what lies behind, so shares are too large at first. The estimate is that of the last units, and never
below what was run. The spread is that of single units, from the lowest tenth to the highest.

Prior art: Knuth, "Estimating the efficiency of backtrack programs" (1975). This is the weighted backtrack estimator of
Kilby, Slaney, Thiebaux and Walsh, "Estimating search tree size" (AAAI 2006).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf, log2

UNITS = 64
"""The last units, of which the estimate is."""


class TreeEstimate:
    """Of one tree. Numbers are logarithms, since a float does not hold what a tree may have. `over`: all was run."""

    def __init__(self) -> None:
        self.over = False
        self._runs = 0
        self._units: deque[tuple[int, float]] = deque(maxlen=UNITS)

    def add(self, runs: int, share: float) -> None:
        """Some runs, and log2 of their share of the tree."""
        if runs and share > -inf:
            self._runs += runs
            self._units.append((runs, share))

    @property
    def total(self) -> float | None:
        """log2 of the number of runs; None if nothing is known."""
        if not self._runs or self.over:
            return log2(self._runs) if self._runs else None
        runs = sum(runs for runs, _ in self._units)
        return max(log2(self._runs), log2(runs) - added(share for _, share in self._units))

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest tenth of units, and the highest."""
        least = log2(max(self._runs, 1))
        units = sorted(max(least, log2(runs) - share) for runs, share in self._units)
        return (least, least) if self.over or not units else (units[len(units) // 10], units[-1 - len(units) // 10])

    def words(self) -> str:
        """In words; empty if nothing is known.

        >>> estimate = TreeEstimate(); estimate.add(1, -3); estimate.add(2, -1); estimate.words()
        'about 5 in all (4 to 8)'
        """
        if self.total is None:
            return ""
        low, high = self.spread
        return f"about {number(self.total)} in all ({number(low)} to {number(high)})"


def added(shares: Iterable[float]) -> float:
    """log2 of the sum of numbers, of which these are the logarithms."""
    known = [*shares]
    most = max(known, default=-inf)
    return most if most == -inf else most + log2(sum(2 ** (one - most) for one in known))


def number(exponent: float) -> str:
    """A power of two in words.

    >>> number(10), number(40)
    ('1,024', '10^12')
    """
    return f"{round(2**exponent):,}" if exponent < 30 else f"10^{round(exponent * log2(2) / log2(10))}"
