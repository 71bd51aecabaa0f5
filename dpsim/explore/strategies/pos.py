"""POS, partial order sampling: each op has a random priority, and the op of highest priority happens. The ops that race
with it then draw new priorities.

So every order of racing ops is likely, however many other ops there are. Suppose that an op has to come after n others
of which one races with it. POS finds this with a chance of 1 in n + 1, and a random walk with 1 in 2^n.

Prior art: Yuan, Yang and Gu, "Partial Order Aware Concurrency Sampling" (CAV 2018).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.schedule import Candidate
from dpsim.explore.order import overlap
from dpsim.explore.strategies.walks import Sampling


class Pos(Sampling):
    """Picks the candidate of the highest priority."""

    name = "pos"

    def begin(self) -> bool:
        self._priority: dict[str, float] = {}
        return super().begin()

    def select(self, candidates: Sequence[Candidate]) -> int:
        priority = self._priority
        for candidate in candidates:
            if candidate.label not in priority:
                priority[candidate.label] = self.random.random()
        chosen = max(range(len(candidates)), key=lambda index: priority[candidates[index].label])
        footprint = candidates[chosen].touches()
        for index, candidate in enumerate(candidates):
            if index != chosen and overlap(candidate.touches(), footprint):
                del priority[candidate.label]
        return chosen
