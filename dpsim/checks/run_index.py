"""Run index: the input of checks. It contains the journals of a run, indexed once by communicator, transfer and
decision.

A journal is the list of a rank's records, one for each op. Long runs have millions of records, and checks look at few
of them closely. So the index keeps raw tuples. `Entry` adds the rank and the index in its journal, and `Entry.record`
has named fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dpsim.checks.completed import completed
from dpsim.checks.finding import Culprit, Fact, fact
from dpsim.checks.memory.shadow import Memory
from dpsim.checks.thread_positions import NO_OP, thread_positions
from dpsim.contract.collectives import COLLECTIVES, UNKNOWN
from dpsim.contract.kinds import OF_THREADS
from dpsim.contract.ops import (
    ABORT_COMMUNICATOR,
    CALL,
    COLLECTIVE_SIZES,
    COMMUNICATOR,
    DECISION_COMMUNICATOR,
    KIND,
    MAIN,
    OP,
    SITE,
    STEP,
    TAKE_HOW,
    THREAD,
    TRANSFER_PEER,
    Collective,
    Decision,
    RawRecord,
    Record,
    as_record,
)
from dpsim.contract.rules.replay_frame import within
from dpsim.contract.world import CommunicatorSpec, End, Run, World

K = TypeVar("K", bound=Hashable)

GONE = ("died", "raised")
"""Ways in which a rank ends before the end of its program."""


class Entry(NamedTuple):
    """A record with its rank and its index in the rank's journal."""

    rank: int
    at: int
    raw: RawRecord

    @property
    def step(self) -> int:
        return int(self.raw[STEP])

    @property
    def record(self) -> Record:
        return as_record(self.raw)


class TransferLine(NamedTuple):
    """The transfers from one rank to another on a communicator, in order."""

    sends: list[Entry]
    receives: list[Entry]


@dataclass
class RunIndex:
    """A run and its index. Positions of ranks with host threads are cached."""

    world: World
    run: Run
    collectives: dict[str, dict[int, list[Entry]]]  # communicator -> member -> its calls, in order
    decisions: dict[tuple[str, str], dict[int, list[Entry]]]  # (communicator, label) -> member -> its decisions
    transfers: dict[tuple[str, int, int], TransferLine]  # (communicator, sender, receiver)
    buffers: bool  # whether any memory was ever allocated
    aborted: dict[str, set[int]] = field(default_factory=dict)  # communicator -> members that aborted it
    groups: list[Entry] = field(default_factory=list)  # records of groups that ranks make
    from_any: list[Entry] = field(default_factory=list)  # receives from any source that took no message
    _positions: dict[int, list[int]] = field(default_factory=dict)  # for ranks with host threads

    @cached_property
    def memory(self) -> Memory:
        """Returns the accesses to memory that are unordered, or ordered wrongly."""
        return Memory.of(self.world, self.run)

    @staticmethod
    def of(world: World, run: Run) -> RunIndex:
        world, run = completed(world, run)
        members = {spec.name: spec.ranks for spec in world.communicators}
        collectives: dict[str, dict[int, list[Entry]]] = {
            name: {rank: [] for rank in ranks} for name, ranks in members.items()
        }
        decisions: dict[tuple[str, str], dict[int, list[Entry]]] = {}
        transfers: dict[tuple[str, int, int], TransferLine] = {}
        buffers = False
        aborted: dict[str, set[int]] = {}
        groups: list[Entry] = []
        from_any: list[Entry] = []
        make = tuple.__new__  # a third of the time of Entry(...)
        for rank, journal in enumerate(run.journals):
            for at, raw in enumerate(journal):
                kind = raw[KIND]
                if kind == "collective":
                    collectives[raw[COMMUNICATOR]][rank].append(make(Entry, (rank, at, raw)))
                elif kind == "decision":
                    key = raw[DECISION_COMMUNICATOR], raw[SITE]
                    if key not in decisions:
                        decisions[key] = {member: [] for member in members[raw[DECISION_COMMUNICATOR]]}
                    decisions[key][rank].append(make(Entry, (rank, at, raw)))
                elif kind == "transfer":
                    sends, peer = raw[OP] == "send", raw[TRANSFER_PEER]
                    pair = (rank, peer) if sends else (peer, rank)
                    line = transfers.setdefault((raw[COMMUNICATOR], *pair), TransferLine([], []))
                    (line.sends if sends else line.receives).append(Entry(rank, at, raw))
                elif kind == "alloc":
                    buffers = True
                elif kind == "group":
                    groups.append(Entry(rank, at, raw))
                elif kind == "receive_any":
                    from_any.append(Entry(rank, at, raw))
                elif kind == "abort":
                    aborted.setdefault(raw[ABORT_COMMUNICATOR], set()).add(rank)
        return RunIndex(world, run, collectives, decisions, transfers, buffers, aborted, groups, from_any)

    def gave_up(self, rank: int, communicator: str) -> bool:
        """Returns whether a rank has aborted a communicator, which broke off its incomplete calls there."""
        return bool(self.aborted) and rank in self.aborted.get(communicator, ())

    def end(self, rank: int) -> End:
        return self.run.ends[rank]

    def communicator(self, name: str) -> CommunicatorSpec:
        return next(spec for spec in self.world.communicators if spec.name == name)

    def within(self, entry: Entry) -> str:
        """Returns the graph replay that contains an entry, in words; empty if none does."""
        return within(self.run.journals[entry.rank], entry.at)

    def culprit(self, entry: Entry, rank: int | None = None) -> Culprit:
        """Returns the culprit for an op: the rank that issued it, or `rank` if that one left the op out."""
        culprit = Culprit.of(entry.rank, entry.record, self.within(entry))
        return culprit if rank in (None, entry.rank) else replace(culprit, rank=rank, of_peer=True)

    def one_line(self, entries: Sequence[Entry]) -> Culprit | None:
        """Returns the source line at which several ranks issued these ops, one each; None if lines or steps differ."""
        if len({(entry.step, entry.record.site, entry.record.where) for entry in entries}) > 1:
            return None
        ranks = tuple(sorted(entry.rank for entry in entries))
        every = len(ranks) == len(self.run.journals)
        return replace(self.culprit(min(entries)), ranks=ranks, every=every)

    def of_all(self, entry: Entry, others: Iterable[Entry]) -> Culprit:
        """Returns the culprit for an op, with all ranks of `others` that have an op of the same step, site and line."""
        place = entry.step, entry.record.site, entry.record.where
        alike = (one.rank for one in others if (one.step, one.record.site, one.record.where) == place)
        ranks = tuple(sorted({entry.rank, *alike}))
        if len(ranks) == 1:
            return self.culprit(entry)
        return replace(self.culprit(entry), rank=ranks[0], ranks=ranks, every=len(ranks) == len(self.run.journals))

    def last(self, rank: int, thread: str | None = None) -> Entry | None:
        """Returns the last record of a rank, or of one of its threads. Planted faults do not count."""
        journal = self.run.journals[rank]
        for at in range(len(journal) - 1, -1, -1):
            if journal[at][KIND] != "injected" and thread in (None, journal[at][THREAD]):
                return Entry(rank, at, journal[at])
        return None

    def living(self, rank: int) -> list[Entry]:
        """Returns the last record of each host thread that has not ended, the main thread first.

        For a rank with one thread, it is the last record of the rank.
        """
        if rank not in self.threaded:
            last = self.last(rank)
            return [] if last is None else [last]
        lasts: dict[str, Entry] = {}
        for at, raw in enumerate(self.run.journals[rank]):
            if raw[KIND] == "ended":
                lasts.pop(raw[THREAD], None)
            elif raw[KIND] != "injected":
                lasts[raw[THREAD]] = Entry(rank, at, raw)
        return sorted(lasts.values(), key=lambda entry: entry.raw[THREAD] != MAIN)

    def asleep(self, rank: int) -> bool:
        """Returns whether all remaining threads of a rank wait in idle gets, which the program allows to wait without
        end.
        """
        lasts = self.living(rank)
        idle = all(last.raw[KIND] == "take" and last.raw[TAKE_HOW] == "idle" for last in lasts)
        return bool(lasts) and idle and self.end(rank) not in GONE

    @cached_property
    def threaded(self) -> frozenset[int]:
        """Returns the ranks that started host threads or used flags."""
        journals = enumerate(self.run.journals)
        return frozenset(rank for rank, journal in journals if any(raw[KIND] in OF_THREADS for raw in journal))

    def reached(self, rank: int) -> int:
        """Returns the last step in which a rank has a record; -1 if it has none."""
        last = self.last(rank)
        return last.step if last else -1

    def passed(self, rank: int, step: int) -> bool:
        """Returns whether a rank has finished a step, so that it left out what it did not do in it.

        A sleeping rank has not, if any actor died or raised: that actor may have been about to send it a message.
        """
        if self.reached(rank) > step:
            return True
        return self.end(rank) == "finished" and not (self.some_gone and self.asleep(rank))

    @cached_property
    def some_gone(self) -> bool:
        """Returns whether any actor died or raised."""
        return any(end in GONE for end in self.run.ends)

    def position(self, entry: Entry) -> tuple[int, int]:
        """Returns (step, number of earlier ops in the step), which is comparable between ranks of one program.

        Probes and planted faults do not count, because only some ranks have them. Nor do ops of the rank's other
        threads.
        """
        journal, number, at = self.run.journals[entry.rank], 0, entry.at - 1
        if entry.rank in self.threaded:
            if entry.rank not in self._positions:
                self._positions[entry.rank] = thread_positions(journal)
            return entry.step, self._positions[entry.rank][entry.at]
        while at >= 0 and journal[at][STEP] == entry.step:
            number += journal[at][KIND] not in NO_OP
            at -= 1
        return entry.step, number


def call(entry: Entry) -> Collective:
    record = entry.record
    assert isinstance(record, Collective)
    return record


Signature: TypeAlias = tuple[Any, ...]

SIGNATURE = Collective._fields[CALL]
"""The fields that must be equal in the calls of all members: op, count, dtype, root, reduce and sizes."""


def signatures(entries: Iterable[Entry], index: int) -> list[Signature]:
    """Returns the signature of each call of one member, in the order of SIGNATURE. `index` is the member's index."""
    return [
        COLLECTIVES.get(raw[OP], UNKNOWN).signature(raw[CALL], index) if raw[COLLECTIVE_SIZES] else raw[CALL]
        for _, _, raw in entries
    ]


def more_like_it(alike: Sequence[Entry]) -> Fact | None:
    """Returns how many ops besides the first are in the list, and on how many ranks all are. None for one op."""
    more = len(alike) - 1
    return fact("more_like_it", more=more, ranks=len({entry.rank for entry in alike})) if more else None


def decision(entry: Entry) -> Decision:
    record = entry.record
    assert isinstance(record, Decision)
    return record


def by_step(entries: Iterable[Entry]) -> dict[int, list[Entry]]:
    """Returns the entries grouped by step."""
    steps: dict[int, list[Entry]] = {}
    for entry in entries:
        steps.setdefault(entry.raw[STEP], []).append(entry)
    return steps


def first_difference(rows: Sequence[Sequence[Any]]) -> int | None:
    """Returns the first index at which the rows differ, or at which a row has ended. None if all rows are equal."""
    longest = max(rows, key=len)
    if all(row == longest for row in rows):
        return None
    return next(
        index for index in range(len(longest)) if any(index >= len(row) or row[index] != longest[index] for row in rows)
    )


def split(values: dict[int, K]) -> tuple[list[int], list[int]] | None:
    """Returns (majority, minority) of ranks by their values; None if no value has more than half of the ranks."""
    [(value, votes), *_] = Counter(values.values()).most_common(1)
    if 2 * votes <= len(values):
        return None
    return [r for r, v in values.items() if v == value], [r for r, v in values.items() if v != value]
