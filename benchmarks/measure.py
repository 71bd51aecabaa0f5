"""Turns, ratios and their spread.

A figure is a ratio of two ways that run one after the other. So a disturbance that slows the machine down for a while
slows both. The median of the ratios counts; quartiles and extremes show its reliability.

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
    """Of three values or more."""
    lower, median, upper = statistics.quantiles(values, n=4)
    return Spread(median, lower, upper, min(values), max(values))


def seconds(way: Callable[[], Any]) -> float:
    """CPU time of one call. This function collects the garbage of earlier calls first; Python collects garbage of the
    call as usual.
    """
    gc.collect()
    start = time.process_time()
    result = way()
    took = time.process_time() - start
    del result
    return took


def turns(ways: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """CPU seconds of each way in each turn: A B C A B C ... One turn before goes uncounted."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repetitions + 1):
        for name, way in ways.items():
            once = seconds(way)
            if turn:
                took[name].append(once)
    return took


def ratios(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """How many times as long, turn by turn."""
    return [a / b for a, b in zip(slow, fast, strict=True)]
