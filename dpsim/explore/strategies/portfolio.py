"""The portfolio: try to prove; where that takes long, look for bugs in other ways meanwhile.

Every sampling strategy has its disaster, a bug that it all but never finds, and no two have the same; so the default
takes turns. DPOR goes first and alone for a while, since most worlds of a few ranks are proven within some dozen
schedules. After that one run in four is DPOR's, which goes on to count classes and may still finish.
"""

from __future__ import annotations

from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST, Picker, Search
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.pct import Pct
from dpsim.explore.strategies.pos import Pos
from dpsim.explore.strategies.walks import RandomWalk

ALONE = 64


class Portfolio(Search):
    """DPOR for `alone` runs, then DPOR, POS, the random walk and PCT in turn."""

    name = "portfolio"
    seeded = True

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0, alone: int = ALONE) -> None:
        super().__init__(labels, longest, seed)
        self.alone = alone
        self.dpor = Dpor(self.labels, longest)
        self.others = [kind(self.labels, longest, seed) for kind in (Pos, RandomWalk, Pct)]
        self._runs = 0
        self._current: Picker = self.dpor

    @property
    def current(self) -> Picker:
        return self._current

    @property
    def exhausted(self) -> bool:
        return self.dpor.exhausted

    @property
    def bounded(self) -> bool:
        return self.dpor.bounded

    def begin(self) -> bool:
        turn = max(0, self._runs - self.alone) % 4
        self._runs += 1
        self._current = self.others[turn - 1] if turn else self.dpor
        return not (self.exhausted or self.bounded) and self._current.begin()

    def end(self, whole: bool) -> None:
        self._current.end(whole)
