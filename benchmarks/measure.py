"""Measures turns, ratios and their spread.

A figure is the ratio of two ways that run one after the other, so a slow phase of the machine affects both. The median
of the ratios counts. Quartiles and extremes show how reliable it is.

>>> spread([3.0, 1.0, 2.0, 2.5, 1.5])
Spread(median=2.0, lower=1.25, upper=2.75, least=1.0, most=3.0)
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Median, quartiles and extremes of some repetitions."""

    median: float
    lower: float
    upper: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f}, quartiles {self.lower:.2f} {self.upper:.2f})"


def spread(values: Sequence[float]) -> Spread:
    """Returns the spread of three or more values."""
    lower, median, upper = statistics.quantiles(values, n=4)
    return Spread(median, lower, upper, min(values), max(values))


def seconds(way: Callable[[], Any]) -> float:
    """Returns the CPU seconds of one call. It first collects the garbage of earlier calls, so that only the call's own
    counts.
    """
    gc.collect()
    start = time.process_time()
    result = way()
    took = time.process_time() - start
    del result
    return took


def turns(ways: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """Returns the CPU seconds of each way in each turn: A B C A B C ... The first turn does not count."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repetitions + 1):
        for name, way in ways.items():
            once = seconds(way)
            if turn:
                took[name].append(once)
    return took


def ratios(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """Returns the ratio of two ways in each turn."""
    return [a / b for a, b in zip(slow, fast, strict=True)]
