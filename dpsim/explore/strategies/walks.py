"""First-in-first-out, and the random walk: the two simplest strategies, in every comparison.

First-in-first-out takes what became ready first and the first option of every draw. There is just one such schedule,
the one nearest to an unhurried machine. A rank's death comes last, as in every strategy that does not seek it.

The random walk takes any candidate with equal chance. It finds bugs that need one or two particular orders in a few
schedules, as often as cleverer strategies (Thomson, Donaldson and Betts, TOPC 2016). It has no memory of what it tried.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from dpsim.contract.schedule import Candidate
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST, Picker


class Fifo(Picker):
    """The one schedule in the order of readiness."""

    name = "fifo"
    _runs = 0

    def begin(self) -> bool:
        self._runs += 1
        return super().begin() and self._runs == 1

    def select(self, candidates: Sequence[Candidate]) -> int:
        return ordinary(candidates)


class Sampling(Picker):
    """A strategy that draws new random numbers for each run, which depend on `seed` and the run alone."""

    seeded = True

    def __init__(self, labels: Labels | None = None, longest: int = LONGEST, seed: int = 0) -> None:
        super().__init__(labels, longest, seed)
        self.random = random.Random(0)
        self.runs = 0

    def begin(self) -> bool:
        self.random = random.Random(f"{self.name}/{self.seed}/{self.runs}")
        self.runs += 1
        return super().begin()

    def drawn(self, label: str, options: Sequence[str]) -> int:
        return self.random.randrange(len(options))


class RandomWalk(Sampling):
    """Any candidate, with equal chance."""

    name = "random"

    def select(self, candidates: Sequence[Candidate]) -> int:
        return self.random.randrange(len(candidates))


def ordinary(candidates: Sequence[Candidate]) -> int:
    """What became ready first; what takes the chance from others only if there is nothing else."""
    for index, candidate in enumerate(candidates):
        if not candidate.disables:
            return index
    return 0
