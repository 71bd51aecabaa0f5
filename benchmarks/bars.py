"""What has to be reached, what is wanted, in one table, and whether it was.

A figure has a *floor* and a *target*. Below the floor something was lost, and `make bench` exits with 1; the target is
what is wanted, and what comes between the two is told. They are the same where nothing more is wanted.

>>> from benchmarks.bars import BARS, missed, short
>>> missed({bar.figure: bar.target for bar in BARS}), short({bar.figure: bar.target for bar in BARS})
([], [])
>>> missed({bar.figure: bar.floor for bar in BARS})
[]
>>> short({"trace": 1.0})[0].partition(" (")[0]
'short of its target: trace is 1, wanted is at least 1.8'
>>> missed({"judged memory": 1000.0})[0].partition(" (")[0]
'missed: judged memory is 1e+03, has to be at most 450'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Bar(NamedTuple):
    """`figure`: its name among the results."""

    figure: str
    sense: Literal["at least", "at most"]
    floor: float
    target: float
    what: str

    def reached(self, came: float, bound: float) -> bool:
        return came >= bound if self.sense == "at least" else came <= bound


BARS = (
    Bar("trace", "at least", 0.93, 1.8, "the machine with its trace, times the baseline's speed, 16 ranks"),
    Bar("checks", "at least", 0.72, 1.3, "the same with all checks on the run, times the baseline's speed"),
    Bar("growth", "at most", 1.1, 1.1, "growth of a rank-step's cost from 16 to 1,024 ranks, over the baseline's own"),
    Bar("judging", "at most", 2.5, 2.5, "growth of the cost of judging a rank-step from 16 to 1,024 ranks"),
    Bar("memory", "at most", 500.0, 500.0, "MB at the peak, 1,024 ranks x 100 steps with the trace, no check"),
    Bar("judged memory", "at most", 450.0, 450.0, "the same with all checks on the run"),
    Bar("untimed", "at least", 0.1, 0.1, "untimed ops a second, over SimPy's bare time-outs a second"),
    Bar("schedules", "at least", 2_000.0, 2_800.0, "schedules a second of the wake world 2x3, DPOR and all checks"),
    Bar("worlds", "at least", 1_000.0, 1_400.0, "small pipeline worlds a second, each proven, one core"),
    Bar("two processes", "at least", 1.6, 1.6, "schedules a second of two processes, over one; on two cores"),
)


def missed(figures: Mapping[str, float]) -> list[str]:
    """A line for each figure below its floor. One that could not be measured here is left out."""
    return [
        f"missed: {_text(bar, figures)}, has to be {bar.sense} {bar.floor:g} ({bar.what})"
        for bar in BARS
        if bar.figure in figures and not bar.reached(figures[bar.figure], bar.floor)
    ]


def short(figures: Mapping[str, float]) -> list[str]:
    """A line for each figure between its floor and its target."""
    return [
        f"short of its target: {_text(bar, figures)}, wanted is {bar.sense} {bar.target:g} ({bar.what})"
        for bar in BARS
        if bar.figure in figures
        and bar.reached(figures[bar.figure], bar.floor)
        and not bar.reached(figures[bar.figure], bar.target)
    ]


def _text(bar: Bar, figures: Mapping[str, float]) -> str:
    return f"{bar.figure} is {figures[bar.figure]:.3g}"
