"""Tests footprints: two ops whose footprints do not conflict must commute.

A footprint lists the resources that an op uses. A random walk reaches some state. `complaints` takes two ops that the
machine offers in this state and that do not conflict, and runs them in both orders. Afterwards the machine must offer
the same ops with the same footprints. If both runs then continue with equal choices, they must fire the same ops. They
must also end with equal journals, in the same class of schedules.

    complaints(case, seed=3)       # [] if this holds for all such pairs along the walk

`complaints` finds a footprint that omits a resource, but not one that lists too many. An op's footprint may change
before the machine fires the op. So `complaints` misses pairs that conflict only in the state before; `brute.Found.torn`
covers those.

Prior art: Mc SimGrid and SPIN, whose partial order reductions also rely on a declared independence relation.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Sequence

from dpsim.contract.schedule import Candidate, Footprint
from tests.worlds.brute import Order, Outcome, Recorder, conflicts, outcome_of
from tests.worlds.case import Case, execute


class Walk(Recorder):
    """Fires the ops of a list of labels, and then continues at random, or always with the least label. The result of a
    draw depends only on its label and the seed, not on the order of draws.
    """

    def __init__(self, seed: int, start: Sequence[str] = (), at_random: bool = False) -> None:
        super().__init__()
        self.start = start
        self.seed = seed
        self.choices: list[dict[str, Footprint]] = []  # for each pick, the ops that the machine offered
        self._random = random.Random(seed) if at_random else None

    def pick(self, candidates: Sequence[Candidate]) -> int:
        self.choices.append({candidate.label: candidate.touches() for candidate in candidates})
        return super().pick(candidates)

    def choose(self, labels: Sequence[str]) -> int:
        at = len(self.fired)
        if at < len(self.start):
            return labels.index(self.start[at])
        if self._random is not None:
            return self._random.randrange(len(labels))
        return min(range(len(labels)), key=labels.__getitem__)

    def answer(self, label: str, options: Sequence[str]) -> int:
        return zlib.crc32(f"{self.seed} {label}".encode()) % len(options)


def complaints(case: Case, seed: int, pairs: int = 6) -> list[str]:
    """Returns descriptions of mistakes in the footprints of at most `pairs` pairs of ops along one random walk."""
    walk = Walk(seed, at_random=True)
    execute(case, walk)
    labels = [op.label for op in walk.fired]
    found = [
        (at, one, other)
        for at, choice in enumerate(walk.choices)
        for one, other in itertools.combinations(sorted(choice), 2)
        if not conflicts(choice[one], choice[other])
    ]
    random.Random(seed).shuffle(found)
    wrong = [_differ(case, seed, labels[:at], one, other) for at, one, other in found[:pairs]]
    return [text for text in wrong if text]


def _differ(case: Case, seed: int, start: list[str], one: str, other: str) -> str:
    """Returns how the runs of the two orders differ, or an empty string if they do not."""
    about = f"{one!r} and {other!r} after {start}"
    after: list[dict[str, Footprint] | None] = []
    ends: list[tuple[set[str], Order, Outcome]] = []
    for pair in ([one, other], [other, one]):
        walk = Walk(seed, [*start, *pair])
        try:
            run = execute(case, walk)
        except ValueError:
            return f"{about}: {pair[0]!r} disables {pair[1]!r}"
        after.append(walk.choices[len(start) + 2] if len(walk.choices) > len(start) + 2 else None)
        ends.append(({op.label for op in walk.fired}, walk.order(), outcome_of(run)))
    if after[0] != after[1]:
        return f"{about}: then other ops can happen, {after[0]} and {after[1]}"
    for what, mine, theirs in zip(("other ops happen", "the classes differ", "journals differ"), *ends, strict=True):
        if mine != theirs:
            return f"{about}: {what}"
    return ""
