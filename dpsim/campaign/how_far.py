"""How far: the progress of an exploration in a line: schedules, units, speed, and the estimated total of schedules.

HowFar(51_000, 800, 33, 120.0, estimate).line()
"51,000 schedules, 425 a second; 800 units done, 33 open; about 90,000 in all (70,000 to 210,000)"
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.words import counted
from dpsim.explore.estimate import TreeEstimate


class HowFar(NamedTuple):
    """The progress of an exploration: its finished and `open` (known and unfinished) units, and the seconds since its
    beginning. `polls`: a loop that polls (`dpsim.campaign.polling`). `finished`: the programs without open work.
    """

    schedules: int
    units: int
    open: int
    seconds: float
    estimate: TreeEstimate | None = None
    polls: str = ""
    finished: int = 0

    @property
    def speed(self) -> float:
        """Schedules per second."""
        return self.schedules / self.seconds if self.seconds > 0 else 0.0

    def line(self) -> str:
        """Returns the progress in words.

        >>> HowFar(510, 8, 3, 10.0).line()
        '510 schedules, 51 a second; 8 units done, 3 open'
        """
        units = f"{counted(self.units, 'unit')} done, {self.open:,} open"
        estimate = "" if self.estimate is None else self.estimate.words(self.schedules)
        line = f"{counted(self.schedules, 'schedule')}, {self.speed:,.0f} a second; {units}"
        return "; ".join(filter(None, (line, estimate, self.polls)))

    def as_json(self) -> dict[str, Any]:
        """Returns the progress as plain data. The numbers of the estimate are logarithms to base 2."""
        known = None if self.estimate is None else self.estimate.of_all(self.schedules)
        return {
            "units_done": self.units,
            "units_open": self.open,
            "schedules_a_second": round(self.speed, 1),
            "estimate_log2": None if known is None else round(known[0], 2),
            "spread_log2": None if known is None else [round(one, 2) for one in known[1:]],
        }
