"""The units of one plan in one order, however many processes do them and in whatever order they end.

    units = InOrder(plan)
    unit = units.next()                     # to be done anywhere; None if there is none now
    units.take(do(unit, subject))           # or units.again(unit), units.lost(unit, how), units.give_up(why)
    units.close()                           # no more is done: what came early is taken, too

The plan is asked for units while fewer than `WINDOW` of them were not taken, and it takes results by the numbers of
their units. So each unit depends on the results before it alone. One process, two, or a cluster explore the same
schedules. So does an exploration that was cut and goes on with results on disk.
"""

from __future__ import annotations

from collections import deque

from dpsim.campaign.plans import Plan
from dpsim.campaign.units import Unit, UnitResult
from dpsim.contract.words import counted

WINDOW = 64


class InOrder:
    """A plan, its units that no process has, and its results that wait for earlier ones."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._waiting: deque[Unit] = deque()
        self._early: dict[int, UnitResult] = {}
        self._issued = self._taken = 0
        self._issue()

    @property
    def runs(self) -> int:
        """Schedules of all units that were done."""
        return self.plan.exploration.runs + sum(one.exploration.runs for one in self._early.values())

    @property
    def done(self) -> int:
        """Units that were done."""
        return self._taken + len(self._early)

    @property
    def open(self) -> int:
        """Units that are known and were not done."""
        return 0 if self.plan.done else self._issued - self.done + self.plan.open

    def next(self, only_proving: bool = False) -> Unit | None:
        """A unit to give out; None if there is none now. `only_proving`: of DPOR."""
        if self.plan.done:
            return None
        unit = next((one for one in self._waiting if not only_proving or one.strategy == "dpor"), None)
        if unit is not None:
            self._waiting.remove(unit)
        return unit

    def take(self, result: UnitResult) -> None:
        """A unit was done."""
        self._early[result.unit.number] = result
        while self._taken in self._early and not self.plan.done:
            self.plan.take(self._early.pop(self._taken))
            self._taken += 1
            self._issue()

    def again(self, unit: Unit) -> None:
        """The unit was given out, and not begun."""
        self._waiting.appendleft(unit)

    def lost(self, unit: Unit, how: str, most: int = 1) -> None:
        """The worker ended in that way. If more than `most` did over this unit, nothing more is tried."""
        unit.lost += 1
        if unit.lost > most:
            processes = "two" if most == 1 else f"{unit.lost}"
            what = f"{processes} processes ended over the same {counted(unit.schedules, 'schedule')} ({unit.strategy})"
            self.give_up(f"{what}, the last {how}. Out of memory? Try fewer --jobs, or a smaller world")
        else:
            self.again(unit)

    def give_up(self, why: str) -> None:
        """The machine took away what a run needs: what was done is taken, and there is no verdict."""
        self.close()
        self.plan.give_up(why)

    def close(self) -> None:
        """No more units are done."""
        for number in sorted(self._early):
            self.plan.take(self._early.pop(number))

    def _issue(self) -> None:
        while self._issued - self._taken < WINDOW and (unit := self.plan.next()) is not None:
            unit.number = self._issued
            self._issued += 1
            self._waiting.append(unit)
