"""Steps: the ops of each rank in each of its steps, by name.

A name is a kind of op, its site and its host thread; the two directions of a transfer are two kinds:

    rank 1   step 2   size.receive  description.receive  hidden.receive  layers  hidden.send
    rank 1   step 3   size.receive  description.receive  hidden.receive  layers  hidden.send

Ops that a rank does alone are here as well, because they belong to the step. Marks, waits and releases are not, because
a step has many of them at one site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import KIND, OP, SITE, STEP, THREAD, RawRecord

Name: TypeAlias = tuple[str, str, str]
"""Kind or direction, site, host thread."""

RankStep: TypeAlias = tuple[int, int]
"""A rank's step: (rank, step)."""

NAMED = frozenset({"collective", "transfer", "launch", "alloc", "read", "post", "take", "decision", "replay"})
"""Kinds of record that say what a step consists of."""


class Did(NamedTuple):
    """A record of a step. `number`: the count of earlier ops of this name in the step."""

    name: Name
    number: int
    entry: Entry


class Steps:
    """All steps of all ranks. `rows`: the ops of a rank in a step, in order."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self.rows: dict[RankStep, list[Did]] = {}
        self.names: list[set[Name]] = []  # the names of each rank
        for rank, journal in enumerate(run_index.run.journals):
            numbers: Counter[tuple[int, Name]] = Counter()
            for at, raw in enumerate(journal):
                if raw[KIND] in NAMED:
                    name, step = name_of(raw), raw[STEP]
                    self.rows.setdefault((rank, step), []).append(Did(name, numbers[step, name], Entry(rank, at, raw)))
                    numbers[step, name] += 1
            self.names.append({name for _, name in numbers})

    def done(self, rank: int, step: int) -> bool:
        """Whether a rank has finished a step. A sleeping rank may wake up and continue its last step."""
        if self.run_index.reached(rank) > step:
            return True
        return self.run_index.end(rank) == "finished" and not self.run_index.asleep(rank)

    def others(self, apart: frozenset[RankStep], rank: int | None = None) -> Iterator[tuple[RankStep, list[Did]]]:
        """The finished steps of one rank or of all, without those in `apart`."""
        for (own, step), row in self.rows.items():
            if rank in (None, own) and (own, step) not in apart and self.done(own, step):
                yield (own, step), row

    def made(self, at: RankStep, name: Name) -> int:
        """How often a step makes a name."""
        return sum(did.name == name for did in self.rows.get(at, ()))


def name_of(raw: RawRecord) -> Name:
    """The name of a record.

    >>> name_of(("launch", 4, "main", "layers", 0, "stage.py:8", "main", (), ()))
    ('launch', 'layers', 'main')
    """
    return raw[OP] if raw[KIND] == "transfer" else raw[KIND], raw[SITE], raw[THREAD]
