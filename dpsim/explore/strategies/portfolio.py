"""The portfolio, the default: DPOR tries to prove the world, and random strategies look for mistakes meanwhile.

Each random strategy has a kind of mistake that it almost never finds, and these kinds differ. So the portfolio
alternates them. DPOR runs first and alone for a while, because most worlds of a few ranks are proven within some dozen
schedules. After that, one run in four is one of DPOR, which may still finish the proof.
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
    """Runs DPOR alone for `alone` runs, then DPOR, POS, the random walk and PCT in turn."""

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
