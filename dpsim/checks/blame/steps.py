"""Steps: lists the ops of each rank in each step by name, so that other passes can compare steps.

A name consists of the kind of op, its site (the name in the source) and the host thread. A send and a receive are
different kinds:

    rank 1   step 2   size.receive  description.receive  hidden.receive  layers  hidden.send
    rank 1   step 3   size.receive  description.receive  hidden.receive  layers  hidden.send

The lists contain communication, kernels, allocations, reads and decisions. They leave out event records, stream waits
and frees, because a step has many of them at one site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import WORK
from dpsim.contract.ops import KIND, OP, SITE, STEP, THREAD, RawRecord

Name: TypeAlias = tuple[str, str, str]
"""Kind or direction of the op, its site, and the host thread."""

RankStep: TypeAlias = tuple[int, int]
"""A step of a rank: (rank, step)."""

NAMED = WORK | {"alloc", "post", "take", "decision", "replay"}
"""The kinds of record that the lists contain."""


class Did(NamedTuple):
    """An op of a step, with its name and record. `number` counts the earlier ops of the same name in the step."""

    name: Name
    number: int
    entry: Entry


class Steps:
    """All steps of all ranks. `rows` maps (rank, step) to the ops in order, and `names` has the names of each rank."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self.rows: dict[RankStep, list[Did]] = {}
        self.names: list[set[Name]] = []
        for rank, journal in enumerate(run_index.run.journals):
            numbers: Counter[tuple[int, Name]] = Counter()
            for at, raw in enumerate(journal):
                if raw[KIND] in NAMED:
                    name, step = name_of(raw), raw[STEP]
                    self.rows.setdefault((rank, step), []).append(Did(name, numbers[step, name], Entry(rank, at, raw)))
                    numbers[step, name] += 1
            self.names.append({name for _, name in numbers})

    def done(self, rank: int, step: int) -> bool:
        """Returns whether a rank has finished a step. A sleeping rank may wake up and continue its last step."""
        if self.run_index.reached(rank) > step:
            return True
        return self.run_index.end(rank) == "finished" and not self.run_index.asleep(rank)

    def others(self, apart: frozenset[RankStep], rank: int | None = None) -> Iterator[tuple[RankStep, list[Did]]]:
        """Yields the finished steps of one rank, or of all ranks, without those in `apart`."""
        for (own, step), row in self.rows.items():
            if rank in (None, own) and (own, step) not in apart and self.done(own, step):
                yield (own, step), row

    def made(self, at: RankStep, name: Name) -> int:
        """Returns how many ops of this name a step has."""
        return sum(did.name == name for did in self.rows.get(at, ()))


def name_of(raw: RawRecord) -> Name:
    """Returns the name of a record.

    >>> name_of(("launch", 4, "main", "layers", 0, "stage.py:8", "main", (), ()))
    ('launch', 'layers', 'main')
    """
    return raw[OP] if raw[KIND] == "transfer" else raw[KIND], raw[SITE], raw[THREAD]
