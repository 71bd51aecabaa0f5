"""What is still to be done for one subject of an exploration over processes: which unit comes next.

    plan = Plan(0, "portfolio", schedules=1000, seed=0, stop_at_first=True)
    unit = plan.next(only_proving=False)        # None if there is none now
    plan.take(do(unit, subject))                # or plan.lost(unit, how), plan.again(unit), plan.give_up(why)

Each unit of DPOR continues the previous one, with as many schedules as take about 0.4 s. Each unit of a sampling
strategy has another seed, so no two run the same schedule. All sampling units have one size, so a seed gives the same
schedules on every machine. The portfolio alternates between DPOR and sampling; each may run `schedules` schedules, for
any number of processes. When DPOR is exhausted, the subject is done.

Prior art: Simsa, Bryant, Gibson and Hickey, "Scalable dynamic partial order reduction" (RV 2012). They split the tree
of one DPOR. Here whole units are enough: a campaign has many worlds, and those that it can prove are small.
"""

from __future__ import annotations

from typing import Any

from dpsim.campaign.units import Unit, UnitResult, merge
from dpsim.contract.words import counted
from dpsim.explore import Exploration
from dpsim.explore.strategies.portfolio import ALONE

UNIT_SECONDS = 0.4
SAMPLED = 16
SAMPLERS = ("pos", "random", "pct")


class Plan:
    """What is still to be done for one subject."""

    def __init__(self, number: int, strategy: str, schedules: int, seed: int, stop_at_first: bool) -> None:
        self.number = number
        self.strategy = strategy
        self._most = schedules
        self.left = {True: schedules, False: schedules}  # of DPOR, of sampling
        self.stop_at_first = stop_at_first
        self.exploration = Exploration()
        self.done = False
        self.seconds = 0.0
        """What its units took."""
        self._proving = strategy in ("portfolio", "dpor")
        self._samplers = SAMPLERS if strategy == "portfolio" else () if strategy == "dpor" else (strategy,)
        self._busy = False
        self._turn = True
        self._state: Any = None
        self._seed = seed * 1_000_003
        self._size = 1
        self._again: list[Unit] = []
        self._begun = False

    def next(self, only_proving: bool) -> Unit | None:
        """A unit to give out; None if there is none now. `only_proving`: not if it is sampling's turn."""
        unit = self._next(only_proving)
        if unit is not None and not self._begun:  # with the first one the run in time is judged
            unit.in_time = self._begun = True
        return unit

    def _next(self, only_proving: bool) -> Unit | None:
        if self.done:
            return None
        if self._again:
            return self._again.pop()
        for proving in (True,) if only_proving and self._turn else () if only_proving else (self._turn, not self._turn):
            size = min(self._size if proving else SAMPLED, self.left[proving])
            if size <= 0 or not (self._proving and not self._busy if proving else self._samplers):
                continue
            if not proving and self._proving and self._state is None:
                continue  # many worlds are proven by one run
            self.left[proving] -= size
            self._turn = not proving or self._most - self.left[True] < ALONE
            if proving:
                self._busy = True
                return Unit(self.number, "dpor", 0, size, self.stop_at_first, self._state)
            self._seed += 1
            name = self._samplers[self._seed % len(self._samplers)]
            return Unit(self.number, name, self._seed, size, self.stop_at_first)
        return None

    def again(self, unit: Unit) -> None:
        """The unit was given out, and not begun."""
        self._again.append(unit)

    def lost(self, unit: Unit, how: str) -> None:
        """The worker ended in that way. If it was the second, nothing more is tried."""
        unit.lost += 1
        if unit.lost > 1:
            self.give_up(
                f"two processes ended over the same {counted(unit.schedules, 'schedule')} ({unit.strategy}), the last "
                f"{how}. Out of memory? Try fewer --jobs, or a smaller world"
            )
        else:
            self._again.append(unit)

    def give_up(self, why: str) -> None:
        """The machine took away what a run needs."""
        self.done = True
        self.exploration.lost, self.exploration.verdict = why, "lost"

    def take(self, result: UnitResult) -> None:
        """A unit was done."""
        merge(self.exploration, result)
        self.seconds += result.seconds
        self.left[result.unit.strategy == "dpor"] += result.unit.schedules - result.exploration.runs
        if result.unit.strategy == "dpor":
            self._busy, self._state = False, result.state
            self._size = max(1, int(result.exploration.runs * UNIT_SECONDS / max(result.seconds, 0.001)))
        if self.exploration.lost:
            self.give_up(self.exploration.lost)
            return
        if result.over or result.exhausted or result.bounded or (self.exploration.failures and self.stop_at_first):
            self.done = True
        if self.exploration.failures:
            self.exploration.verdict = "violated"
        elif self.exploration.vacuous:
            self.exploration.verdict = "vacuous"
        elif result.exhausted:
            self.exploration.verdict = "proven"
        elif result.bounded:
            self.exploration.verdict = "bounded"
