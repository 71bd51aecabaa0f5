"""POS: partial order sampling. Each op has a random priority; when one happens, those that race with it draw anew.

So every order of the ops that race is likely, however many ops there are that race with nothing. Let an op have to come
after n others, of which one races with it. It does so with a chance of 1 in n + 1, where a random walk has 1 in 2^n.

Prior art: Yuan, Yang and Gu, "Partial Order Aware Concurrency Sampling" (CAV 2018).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.schedule import Candidate
from dpsim.explore.order import overlap
from dpsim.explore.strategies.walks import Sampling


class Pos(Sampling):
    """The candidate of the highest priority."""

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
