"""Steps: what each rank made in each of its steps, by name.

A name is a kind of op, its site and its host thread; the two directions of a transfer are two kinds:

    rank 1   step 2   size.receive  description.receive  hidden.receive  layers  hidden.send
    rank 1   step 3   size.receive  description.receive  hidden.receive  layers  hidden.send

What a rank does alone is here as well, since it belongs to the step. Marks, waits and releases are not: a step has many
of them at one site.
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
    """A record of a step. `number`: how many of this name the rank made before it in the step."""

    name: Name
    number: int
    entry: Entry


class Steps:
    """All steps of all ranks. `rows`: what a rank made in a step, in order."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self.rows: dict[RankStep, list[Did]] = {}
        self.names: list[set[Name]] = []  # what each rank ever makes
        for rank, journal in enumerate(run_index.run.journals):
            numbers: Counter[tuple[int, Name]] = Counter()
            for at, raw in enumerate(journal):
                if raw[KIND] in NAMED:
                    name, step = name_of(raw), raw[STEP]
                    self.rows.setdefault((rank, step), []).append(Did(name, numbers[step, name], Entry(rank, at, raw)))
                    numbers[step, name] += 1
            self.names.append({name for _, name in numbers})

    def done(self, rank: int, step: int) -> bool:
        """Whether a rank is done with a step. One that is asleep may wake up, and go on with its last step."""
        if self.run_index.reached(rank) > step:
            return True
        return self.run_index.end(rank) == "finished" and not self.run_index.asleep(rank)

    def others(self, apart: frozenset[RankStep], rank: int | None = None) -> Iterator[tuple[RankStep, list[Did]]]:
        """The steps that ranks are done with, of one rank or of all, without those in `apart`."""
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
