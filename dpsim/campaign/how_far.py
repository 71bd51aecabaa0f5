"""How far an exploration is, in a line: schedules, units, speed, and an estimate of what there is in all.

HowFar(51_000, 800, 33, 120.0, estimate).line()
"51,000 schedules, 425 a second; 800 units done, 33 open; about 90,000 in all (70,000 to 210,000)"
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.words import counted
from dpsim.explore.estimate import TreeEstimate


class HowFar(NamedTuple):
    """`units`: that were done; `open`: that are known and were not. `seconds`: since the exploration began. `polls`: a
    loop that polls (`dpsim.campaign.polling`).
    """

    schedules: int
    units: int
    open: int
    seconds: float
    estimate: TreeEstimate | None = None
    polls: str = ""

    @property
    def speed(self) -> float:
        """Schedules a second."""
        return self.schedules / self.seconds if self.seconds > 0 else 0.0

    def line(self) -> str:
        """In words.

        >>> HowFar(510, 8, 3, 10.0).line()
        '510 schedules, 51 a second; 8 units done, 3 open'
        """
        units = f"{counted(self.units, 'unit')} done, {self.open:,} open"
        estimate = "" if self.estimate is None else self.estimate.words()
        line = f"{counted(self.schedules, 'schedule')}, {self.speed:,.0f} a second; {units}"
        return "; ".join(filter(None, (line, estimate, self.polls)))

    def as_json(self) -> dict[str, Any]:
        """As plain data. The numbers of the estimate are logarithms to the base of two."""
        total = None if self.estimate is None else self.estimate.total
        spread = None if self.estimate is None or total is None else self.estimate.spread
        return {
            "units_done": self.units,
            "units_open": self.open,
            "schedules_a_second": round(self.speed, 1),
            "estimate_log2": None if total is None else round(total, 2),
            "spread_log2": None if spread is None else [round(one, 2) for one in spread],
        }
