"""What has to be reached, in one table, and whether it was.

>>> from benchmarks.bars import BARS, missed
>>> missed({bar.figure: bar.bound for bar in BARS})
[]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Bar(NamedTuple):
    """`figure`: its name among the results."""

    figure: str
    sense: Literal["at least", "at most"]
    bound: float
    what: str


BARS = (
    Bar("trace", "at least", 1.8, "the machine with its trace, times the baseline's speed, 16 ranks"),
    Bar("checks", "at least", 1.3, "the same with all checks on the run, times the baseline's speed"),
    Bar("growth", "at most", 1.1, "growth of the cost of a rank-step from 16 to 1,024 ranks, over the baseline's own"),
    Bar("memory", "at most", 500.0, "MB at the peak, 1,024 ranks x 100 steps with the trace, no check"),
    Bar("untimed", "at least", 0.1, "untimed ops a second, over SimPy's bare time-outs a second"),
    Bar("schedules", "at least", 2_000.0, "schedules a second of the wake world 2x3, one core, all checks and DPOR"),
    Bar("worlds", "at least", 1_000.0, "small pipeline worlds a second, each proven, one core"),
    Bar("two processes", "at least", 1.6, "schedules a second of two processes, over one; on two cores"),
)


def missed(figures: Mapping[str, float]) -> list[str]:
    """A line for each bar that is not reached. A figure that could not be measured here is left out."""
    lines = []
    for bar in BARS:
        if bar.figure not in figures:
            continue
        came = figures[bar.figure]
        if came < bar.bound if bar.sense == "at least" else came > bar.bound:
            lines.append(f"missed: {bar.figure} is {came:.3g}, has to be {bar.sense} {bar.bound:g} ({bar.what})")
    return lines
