"""What is still to be done for one subject of an exploration over processes: which unit comes next.

    plan = Plan(0, "portfolio", schedules=1000, seed=0, stop_at_first=True)
    unit = plan.next()                          # None if there is none now
    plan.take(do(unit, subject))                # or plan.give_up(why)

Each unit of DPOR continues a branch of its tree. A unit of a search within bounds runs some nodes of its frontier. Each
unit of a sampling strategy has another seed, so no two run the same schedule. The sizes of units depend on schedules
and steps, and on no clock. So a plan gives the same units wherever they are done, if they are asked for and taken in
one order (`dpsim.campaign.in_order`).

The portfolio begins with DPOR alone, since most worlds of a few ranks are proven within some dozen schedules. Then up
to three units of sampling come for each of DPOR. Each of the two may run `schedules` schedules. When DPOR is exhausted,
the subject is done.

The tree of DPOR is split into branches (`dpsim.explore.strategies.branches`), and the frontier of a search within
bounds is shared out (`dpsim.explore.strategies.frontier`). So one proof keeps many processes busy.
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
"""A unit of DPOR is made of as many schedules as take about this number of steps: a tenth of a second, or a few."""

MOST = 64
"""But it has at most this number of schedules, for the steps that no strategy is asked about take time, too."""

LONGER = 20
"""In a long proof a unit may be this number of times as long: each costs milliseconds, and repeats some of its runs."""

PART = 64
"""But such a unit is at most this part of the schedules before it, since at the end processes wait for the last one."""

SAMPLED = 16
SAMPLERS = ("pos", "random", "pct")
AHEAD = 3
"""Units of sampling that are under way beside DPOR."""


class Plan:
    """What is still to be done for one subject."""

    def __init__(self, number: int, strategy: str, schedules: int, seed: int, stop_at_first: bool) -> None:
        self.number = number
        self.strategy = strategy
        self.left = {True: schedules, False: schedules}  # of DPOR, of sampling
        self.stop_at_first = stop_at_first
        self.exploration = Exploration()
        self.done = False
        self.seconds = 0.0
        """What its units took."""
        self._by = strategy if strategy.startswith(f"{WITHIN} ") else "dpor"
        self._proving = strategy in ("portfolio", self._by)
        self._samplers = SAMPLERS if strategy == "portfolio" else () if self._proving else (strategy,)
        self._tree: Tree | SharedFrontier = SharedFrontier() if self._by != "dpor" else Tree()
        self.estimate = TreeEstimate()
        self._sampling = 0  # units under way
        self._proved = 0  # schedules of DPOR that were taken
        self._seed = seed * 1_000_003
        self._size = 1
        self._begun = False
        self._classes = set[Hashable]()  # that the units of the proof saw

    def next(self) -> Unit | None:
        """A unit to give out; None if there is none now."""
        unit = None if self.done else self._of_dpor() or self._sample()
        if unit is not None and not self._begun:  # with the first one the run in time is judged
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
        """Units that were not given out, by what is known."""
        return -(-self._tree.open // self._size) if isinstance(self._tree, SharedFrontier) else self._tree.open

    def give_up(self, why: str) -> None:
        """The machine took away what a run needs."""
        self.done = True
        self.exploration.lost, self.exploration.verdict = why, "lost"

    def take(self, result: UnitResult) -> None:
        """A unit was done."""
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
            if proven:  # a sampling strategy counts some classes more than once
                self.exploration.classes = self._classes

    def _next_size(self, result: UnitResult) -> int:
        """How many schedules the next unit has: at most twice as many as this one."""
        each = max(result.exploration.steps / max(result.exploration.runs, 1), 1)
        short = min(MOST, int(UNIT_STEPS / each))
        long = min(LONGER * MOST, int(LONGER * UNIT_STEPS / each), self._proved // PART)
        return max(1, min(2 * result.unit.schedules, max(short, long)))

    def _branched(self, result: UnitResult) -> UnitResult:
        """The tree learns what a unit found. In a search within bounds a run may turn out to be redundant: another
        unit met the same place before. What comes back counts it so.
        """
        number, state, found = result.unit.branch, result.state, result.exploration
        if isinstance(self._tree, SharedFrontier):
            counts = self._tree.take(number, state)
            counts += [True] * (len(result.keys) - len(counts))  # a run that could not be repeated
            keys = [key for key, one in zip(result.keys, counts, strict=True) if one]
            again = len(result.keys) - len(keys)
            found = replace(found, redundant=found.redundant + again, idle=min(found.idle, len(keys)))
            return replace(result, keys=keys, exploration=found)
        over = result.exhausted or result.bounded or state.anew
        self._tree.take(number, state, result.asked, over, found.runs)
        return result

    def _ended(self, result: UnitResult) -> tuple[bool, bool]:
        """Whether all was seen, and whether it was but for runs that were cut off or are beyond a bound."""
        if result.state is None:
            return result.exhausted, result.bounded
        return (not self._tree.incomplete, self._tree.incomplete) if self._tree.over else (False, False)
