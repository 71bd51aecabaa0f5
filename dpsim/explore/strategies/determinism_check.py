"""The determinism check: every schedule runs twice, and the second run has to be the first again.

A run may depend on the scenario and on the schedule, and on nothing else. What breaks this, a clock or a dict that
outlives the run, makes proofs wrong and replays useless, and is seldom seen where it is. Here the second run follows
the first's schedule strictly, so the first step that differs is named.

Prior art: FoundationDB runs a share of its seeds twice; Shuttle's `check_determinism` (uncontrolled nondeterminism).
"""

from __future__ import annotations

from dpsim.explore.strategies.base import Picker, Search
from dpsim.explore.strategies.replay import Mismatch, Replay


class DeterminismCheck(Search):
    """Each run of another search, and then the same again."""

    name = "determinism check"

    def __init__(self, search: Search) -> None:
        super().__init__(search.labels, search.longest, search.seed)
        self.first = search
        self._again: Replay | None = None
        self._key: object = None

    @property
    def current(self) -> Picker:
        return self.first.current if self._again is None else self._again

    @property
    def exhausted(self) -> bool:
        return self.first.exhausted

    @property
    def bounded(self) -> bool:
        return self.first.bounded

    def begin(self) -> bool:
        return self.first.begin() if self._again is None else self._again.begin()

    def end(self, whole: bool) -> None:
        again, self._again = self._again, None
        if again is not None:
            again.end(whole)
            if again.order.class_key() != self._key:
                raise Mismatch(
                    "the second run of the same schedule made the same steps, but in another order of causes"
                )
        else:
            current = self.first.current
            self._key = current.order.class_key()
            if whole:
                self._again = Replay(current.schedule, labels=self.labels, longest=self.longest)
            self.first.end(whole)
