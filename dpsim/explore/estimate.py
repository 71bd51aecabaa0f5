"""How many schedules a search has in all, by what it has seen of its tree.

    estimate = TreeEstimate()
    estimate.add(runs=64, share=-9.5)       # of a unit: these runs are 2 ** -9.5 of the tree
    estimate.total, estimate.spread         # log2 of the number, and of its lowest and highest tenth over units

A run has a share of the tree: half of what lies behind a place with two choices, and so on down to its end. Shares of
all runs add up to one, so the runs so far by their shares are an estimate of the number. It is too low rather than too
high, for DPOR finds more choices at a place while it explores what lies behind.
The spread is that of the same estimate from single units, from the lowest tenth to the highest.

Prior art: Knuth, "Estimating the efficiency of backtrack programs" (1975). This is the weighted backtrack estimator of
Kilby, Slaney, Thiebaux and Walsh, "Estimating search tree size" (AAAI 2006).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf, log2

UNITS = 200
"""The spread is that of the last units."""


class TreeEstimate:
    """Of one tree. Numbers are logarithms, since trees may have more schedules than a float holds."""

    def __init__(self) -> None:
        self._runs = 0
        self._share = -inf
        self._units: deque[float] = deque(maxlen=UNITS)

    def add(self, runs: int, share: float) -> None:
        """Some runs, and log2 of their share of the tree."""
        if runs and share > -inf:
            self._runs += runs
            self._share = added((self._share, share))
            self._units.append(log2(runs) - share)

    @property
    def total(self) -> float | None:
        """log2 of the number of runs; None if nothing is known."""
        return log2(self._runs) - self._share if self._runs else None

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest tenth of units, and the highest."""
        units = sorted(self._units)
        return units[len(units) // 10], units[-1 - len(units) // 10]

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
