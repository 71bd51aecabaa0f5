"""In order: issues the units of a plan, and passes their results to the plan, in one fixed order.

A unit is some schedules of one world. Any number of processes may execute units, which may finish in any order:

    units = InOrder(plan)
    unit = units.next()                     # to be done anywhere; None if there is none now
    units.take(do(unit, subject))           # or units.again(unit), units.lost(unit, how), units.give_up(why)
    units.close()                           # no more is done: what came early is taken, too

At most `WINDOW` results are outstanding. They pass on by their numbers, so a unit depends on the results of earlier
units alone. So one process, two, a cluster or a resumed exploration explore the same schedules.
"""

from __future__ import annotations

from collections import deque

from dpsim.campaign.plans import Plan
from dpsim.campaign.units import Unit, UnitResult
from dpsim.contract.words import counted

WINDOW = 64


class InOrder:
    """A plan, its units that no process has, and results that wait for earlier ones."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._waiting: deque[Unit] = deque()
        self._early: dict[int, UnitResult] = {}
        self._issued = self._taken = 0
        self._issue()

    @property
    def runs(self) -> int:
        """The number of schedules of all finished units."""
        return self.plan.exploration.runs + sum(one.exploration.runs for one in self._early.values())

    @property
    def done(self) -> int:
        """The number of finished units."""
        return self._taken + len(self._early)

    @property
    def open(self) -> int:
        """The number of known and unfinished units."""
        return 0 if self.plan.done else self._issued - self.done + self.plan.open

    @property
    def finished(self) -> bool:
        """Whether no unit is left: the plan is done, or its limits allow no further one."""
        return self.plan.done or self._issued == self.done

    def next(self, only_proving: bool = False) -> Unit | None:
        """Returns a unit for a process, or None if there is none now. `only_proving`: only units of DPOR."""
        if self.plan.done:
            return None
        unit = next((one for one in self._waiting if not only_proving or one.strategy == "dpor"), None)
        if unit is not None:
            self._waiting.remove(unit)
        return unit

    def take(self, result: UnitResult) -> None:
        """Handles the result of a unit."""
        self._early[result.unit.number] = result
        while self._taken in self._early and not self.plan.done:
            self.plan.take(self._early.pop(self._taken))
            self._taken += 1
            self._issue()

    def again(self, unit: Unit) -> None:
        """Returns a unit that no process began."""
        self._waiting.appendleft(unit)

    def lost(self, unit: Unit, how: str, most: int = 1) -> None:
        """Handles the death of a process during a unit. If more than `most` died during it, the plan is given up."""
        unit.lost += 1
        if unit.lost > most:
            processes = "two" if most == 1 else f"{unit.lost}"
            what = f"{processes} processes ended over the same {counted(unit.schedules, 'schedule')} ({unit.strategy})"
            self.give_up(f"{what}, the last {how}. Out of memory? Try fewer --jobs, or a smaller world")
        else:
            self.again(unit)

    def give_up(self, why: str) -> None:
        """Ends the plan without a verdict, because the machine cannot execute it. Finished results still count."""
        self.close()
        self.plan.give_up(why)

    def close(self) -> None:
        """Ends the plan. Results that wait for earlier ones count as well."""
        for number in sorted(self._early):
            self.plan.take(self._early.pop(number))

    def _issue(self) -> None:
        while self._issued - self._taken < WINDOW and (unit := self.plan.next()) is not None:
            unit.number = self._issued
            self._issued += 1
            self._waiting.append(unit)
