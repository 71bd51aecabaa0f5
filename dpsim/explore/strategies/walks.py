"""First-in-first-out and the random walk: the two simplest strategies, with which dpsim compares all others.

First-in-first-out picks the op that became ready first, and the first option of every draw, as a machine without delays
would. The death of a rank comes last, as in every strategy that does not look for deaths.

The random walk picks each candidate with equal chance. If a bug needs one or two particular orders, more complex
strategies need as many schedules (Thomson, Donaldson and Betts, TOPC 2016). It does not remember what it tried.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from dpsim.contract.schedule import Candidate, OptionalWait
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST, Picker


class Fifo(Picker):
    """The one schedule in the order in which ops become ready."""

    name = "fifo"
    _runs = 0

    def begin(self) -> bool:
        self._runs += 1
        return super().begin() and self._runs == 1

    def select(self, candidates: Sequence[Candidate]) -> int:
        return ordinary(candidates)


class Sampling(Picker):
    """A strategy that draws new random numbers for each run. They depend only on `seed` and the number of the run."""

    seeded = True

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0) -> None:
        super().__init__(labels, longest, seed)
        self.random = random.Random(0)
        self.runs = 0
        self._strict = False

    def begin(self) -> bool:
        self.random = random.Random(f"{self.name}/{self.seed}/{self.runs}")
        self.runs += 1
        return super().begin()

    def waits(self, wait: OptionalWait) -> bool:
        """Answers for an op behind a rendezvous that it waits, too, if its answer cannot show something new."""
        self._strict = not wait.counts
        try:
            return super().waits(wait)
        finally:
            self._strict = False

    def drawn(self, label: str, options: Sequence[str]) -> int:
        return len(options) - 1 if self._strict else self.random.randrange(len(options))


class RandomWalk(Sampling):
    """Picks each candidate with equal chance."""

    name = "random"

    def select(self, candidates: Sequence[Candidate]) -> int:
        return self.random.randrange(len(candidates))


def ordinary(candidates: Sequence[Candidate]) -> int:
    """Returns the index of the op that became ready first. An op that takes possibilities away comes last."""
    for index, candidate in enumerate(candidates):
        if not candidate.disables:
            return index
    return 0
