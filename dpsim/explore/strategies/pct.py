"""PCT, probabilistic concurrency testing: each actor has a random priority, and the actor of highest priority runs. At
d - 1 random steps, the running actor gets the lowest priority.

A bug of depth d needs d ordering constraints between steps. One run with n actors and k steps finds a bug of depth d
with a probability of at least `1 / (n k^(d-1))`. PCT is weak if an actor of low priority has to run at one certain
step: a priority has to change at exactly this step.

An actor (`dpsim.contract.events.continuing_actor`) is a rank, a communicator, or the messages that a rank posts at one
site. If messages had the priority of their sender, no message would ever be late. k is the length of the longest run so
far; for the first run it is a guess.

Prior art: Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs" (ASPLOS 2010); Shuttle's pct.rs.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.events import continuing_actor
from dpsim.contract.schedule import Candidate
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST
from dpsim.explore.strategies.walks import Sampling

FIRST_LENGTH = 16


class Pct(Sampling):
    """The strategy. `depth`: the number of ordering constraints of the bugs that it looks for."""

    name = "pct"

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0, depth: int = 3) -> None:
        super().__init__(labels, longest, seed)
        self.depth = depth
        self._longest = 0
        self._priority: dict[str, float] = {}
        self._changes: list[int] = []

    def begin(self) -> bool:
        going = super().begin()
        self._priority = {}
        self._changes = [self.random.randrange(self._longest or FIRST_LENGTH) for _ in range(self.depth - 1)]
        return going

    def end(self, whole: bool) -> None:
        self._longest = max(self._longest, len(self.order.steps))

    def select(self, candidates: Sequence[Candidate]) -> int:
        priority = self._priority
        for candidate in candidates:
            name = continuing_actor(candidate.label)
            if name not in priority:
                priority[name] = 1 + self.random.random()
        now = len(self.order.steps)
        for index, change in enumerate(self._changes):
            if change == now:  # below all others; a later change is lower
                priority[continuing_actor(candidates[self._leading(candidates)].label)] = -index
        return self._leading(candidates)

    def _leading(self, candidates: Sequence[Candidate]) -> int:
        return max(range(len(candidates)), key=lambda index: self._priority[continuing_actor(candidates[index].label)])
