"""Do footprints say the truth? Two ops that do not conflict must commute.

From a state that a random walk reaches, two ops that could happen next and do not conflict there happen in both orders.
Nothing may tell the two runs apart. Right afterwards the same ops with the same footprints could happen. When both runs
go on in the same way they fire the same ops and end with the same journals, in the same class.

    complaints(case, seed=3)       # [] if that holds for all such pairs along the walk

It finds a footprint that leaves something out, and says nothing of one that has too much. Two ops that conflict
wherever both could happen, and yet not as they fired, are not compared; that is for `brute.Found.torn`.

Prior art: Mc SimGrid and SPIN, whose reductions rest on a declared independence relation, too.
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
    """Fires the ops of a list of labels, then goes on at random, or always with the least label. Draws are a function
    of their labels and the seed, so that they do not depend on the order.
    """

    def __init__(self, seed: int, start: Sequence[str] = (), at_random: bool = False) -> None:
        super().__init__()
        self.start = start
        self.seed = seed
        self.choices: list[dict[str, Footprint]] = []  # for each pick, what could happen
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
    """What is wrong with at most `pairs` pairs of ops along one random walk."""
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
    """In what the two orders differ; empty if in nothing."""
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
