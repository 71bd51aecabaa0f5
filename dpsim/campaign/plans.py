"""Plans: decides which unit of an exploration comes next. A unit is a number of schedules that one process executes.

    plan = Plan(0, "portfolio", schedules=1000, seed=0, stop_at_first=True)
    unit = plan.next()                          # None if there is none now
    plan.take(do(unit, subject))                # or plan.give_up(why)

A unit of DPOR continues one branch of its tree (`branches`), and a unit within bounds runs some open nodes
(`frontier`). Each unit of a random strategy has another seed. No clock decides the size of a unit. So a plan yields the
same units on all machines, if results come in a fixed order (`in_order`).

The portfolio begins with DPOR alone, which proves most small programs within some dozen schedules. Then up to three
units of random strategies run beside it. Both may run `schedules` schedules each. When DPOR has seen all schedules, the
plan is done.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from dpsim.campaign.units import Unit, UnitResult, merge
from dpsim.explore import Exploration
from dpsim.explore.estimate import TreeEstimate
from dpsim.explore.strategies.branches import Tree
from dpsim.explore.strategies.frontier import SharedFrontier
from dpsim.explore.strategies.portfolio import ALONE
from dpsim.explore.strategies.within import NAME as WITHIN

UNIT_STEPS = 2_000
"""The number of steps of a typical unit of DPOR: a tenth of a second, or a few."""

MOST = 64
"""The largest number of schedules of such a unit, because a schedule without choices costs time as well."""

LONGER = 20
"""In a long proof, a unit may be this many times as large. Each unit costs milliseconds, and repeats some runs."""

PART = 64
"""Such a unit has at most one in this number of the schedules so far: at the end, processes wait for the last unit."""

SAMPLED = 16
SAMPLERS = ("pos", "random", "pct")
AHEAD = 3


class Plan:
    """The remaining work for one program."""

    def __init__(self, number: int, strategy: str, schedules: int, seed: int, stop_at_first: bool) -> None:
        self.number = number
        self.strategy = strategy
        self.left = {True: schedules, False: schedules}  # schedules left for DPOR, and for random strategies
        self.stop_at_first = stop_at_first
        self.exploration = Exploration()
        self.done = False
        self.seconds = 0.0
        """The time that its units took."""
        self._by = strategy if strategy.startswith(f"{WITHIN} ") else "dpor"
        self._proving = strategy in ("portfolio", self._by)
        self._samplers = SAMPLERS if strategy == "portfolio" else () if self._proving else (strategy,)
        self._tree: Tree | SharedFrontier = SharedFrontier() if self._by != "dpor" else Tree()
        self.estimate = TreeEstimate()
        self._sampling = 0  # random units that processes execute now
        self._proved = 0  # schedules of finished units of DPOR
        self._seed = seed * 1_000_003
        self._size = 1
        self._begun = False
        self._classes = set[Hashable]()  # the classes of schedules in units of the proof

    def next(self) -> Unit | None:
        """Returns a unit for a process, or None if there is none now."""
        unit = None if self.done else self._of_dpor() or self._sample()
        if unit is not None and not self._begun:  # the first unit also judges the timed run
            unit.in_time = self._begun = True
        return unit

    def _of_dpor(self) -> Unit | None:
        size = min(self._size, self.left[True])
        branch = self._tree.next(size) if self._proving and size > 0 else None
        if branch is None:
            return None
        size = branch.schedules(size)
        self.left[True] -= size
        return Unit(self.number, self._by, 0, size, self.stop_at_first, branch.state, branch=branch.number)

    def _sample(self) -> Unit | None:
        size = min(max(SAMPLED, self._size * SAMPLED // MOST), self.left[False])
        if not self._samplers or size <= 0:
            return None
        alone = self._proved < ALONE and (self._tree.running > 0 or self.left[True] > 0)
        if self._proving and (alone or self._sampling == AHEAD):
            return None
        self._sampling += 1
        self.left[False] -= size
        self._seed += 1
        name = self._samplers[self._seed % len(self._samplers)]
        return Unit(self.number, name, self._seed, size, self.stop_at_first)

    @property
    def open(self) -> int:
        """The number of units that no process has yet, as far as it is known."""
        return -(-self._tree.open // self._size) if isinstance(self._tree, SharedFrontier) else self._tree.open

    def give_up(self, why: str) -> None:
        """Ends the plan without a verdict, because the machine cannot execute it."""
        self.done = True
        self.exploration.lost, self.exploration.verdict = why, "lost"

    def take(self, result: UnitResult) -> None:
        """Handles the result of a unit."""
        if self.done:
            return
        proving = result.unit.strategy == self._by
        if proving:
            result = self._branched(result)
        merge(self.exploration, result)
        self.seconds += result.seconds
        self._classes.update(result.keys if proving else ())
        self.left[proving] += result.unit.schedules - result.exploration.runs
        if proving:
            self._proved += result.exploration.runs
            self.estimate.add(result.exploration.runs, result.share)
            self.estimate.over = self._tree.over
            self._size = self._next_size(result)
        else:
            self._sampling -= 1
            self.estimate.beside += result.exploration.runs
        if self.exploration.lost:
            self.give_up(self.exploration.lost)
            return
        proven, bounded = self._ended(result)
        if result.over or proven or bounded or (self.exploration.failures and self.stop_at_first):
            self.done = True
        if self.exploration.failures:
            self.exploration.verdict = "violated"
        elif self.exploration.vacuous:
            self.exploration.verdict = "vacuous"
        elif proven or bounded:
            self.exploration.verdict = "proven" if proven else "bounded"
            if proven:  # random strategies count some classes twice
                self.exploration.classes = self._classes

    def _next_size(self, result: UnitResult) -> int:
        each = max(result.exploration.steps / max(result.exploration.runs, 1), 1)
        short = min(MOST, int(UNIT_STEPS / each))
        long = min(LONGER * MOST, int(LONGER * UNIT_STEPS / each), self._proved // PART)
        return max(1, min(2 * result.unit.schedules, max(short, long)))

    def _branched(self, result: UnitResult) -> UnitResult:
        """Passes a unit's result to the tree. Returns it without runs that another unit had already made."""
        number, state, found = result.unit.branch, result.state, result.exploration
        if isinstance(self._tree, SharedFrontier):
            counts = self._tree.take(number, state)
            counts += [True] * (len(result.keys) - len(counts))  # runs that could not be repeated
            keys = [key for key, one in zip(result.keys, counts, strict=True) if one]
            again = len(result.keys) - len(keys)
            found = replace(found, redundant=found.redundant + again, idle=min(found.idle, len(keys)))
            return replace(result, keys=keys, exploration=found)
        over = result.exhausted or result.bounded or state.anew
        self._tree.take(number, state, result.asked, over, found.runs)
        return result

    def _ended(self, result: UnitResult) -> tuple[bool, bool]:
        """Returns whether the search saw all schedules, and whether it saw all within its bounds."""
        if result.state is None:
            return result.exhausted, result.bounded
        return (not self._tree.incomplete, self._tree.incomplete) if self._tree.over else (False, False)
