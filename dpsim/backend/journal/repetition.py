"""Whether a rank makes progress or repeats itself, read from its journal, on every backend.

    one = Repetition(0, records)
    one.begin(0)                # what is there by now is old
    ...
    one.reads_on()              # False if any record since then is progress

A poll or a query is a repetition if this line of the program has had its outcome before. Queries are those of an event,
a flag or a key of a store. A decision is one if the line decided the same value before. A host collective is one if the
line got the same result before. Sleeps, records of events and probes are no progress either. Every other record is
progress.

The simulation uses this during a run (`dpsim.sim.hosts.watch`), a real backend when its deadline has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dpsim.contract.kinds import HOW, POLLS, VALUE
from dpsim.contract.ops import (
    KIND,
    SITE,
    STORE_HOW,
    STORE_VALUE,
    STREAM,
    TAKE_HOW,
    TAKE_TIMEOUT,
    RawRecord,
)

VALUES = 8
"""A line that has had at most this number of different outcomes still repeats itself."""


_NO_PROGRESS = frozenset({"sleep", "mark", "probe"})

FEW = 8
"""Among these last records is the collective in which a rank waits, unless its other threads wrote more since."""


TAIL = 1_000
"""This number of last records decides whether a rank repeats itself."""


def repeating(journals: Sequence[Sequence[RawRecord]]) -> tuple[int, ...]:
    """Returns the ranks that have not ended and whose last TAIL records are all repetitions, some of them polls.

    >>> poll = ("take", 0, "main", "ask", 0, "a.py:1", "box", "poll", None)
    >>> repeating([[poll] * 2_000, [poll] * 10, [("finished", 0, "main", "end", 0, "")]])
    (0,)
    """
    ranks = []
    for rank, journal in enumerate(journals):
        one = Repetition(rank, journal)
        if len(journal) < TAIL:
            continue
        one.begin(0, len(journal) - TAIL)
        if one.reads_on() and one.asks:
            ranks.append(rank)
    return tuple(ranks)


class Repetition:
    """The repetitions of a rank since any rank made progress. `read`: the number of its records that were read.
    `epoch`: the number of steps of progress so far. `seen`: the outcomes at each place. `agreements`: host collectives
    among the repeats; `agreed`: their sites.
    """

    def __init__(self, rank: int, records: Sequence[RawRecord]) -> None:
        self.rank = rank
        self.records = records
        self.read = 0
        self.epoch = -1
        self.repeats = 0
        self.asks = 0
        self.agreements = 0
        self.agreed: set[str] = set()
        self.seen: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def begin(self, epoch: int, old: int | None = None) -> None:
        """Some rank made progress: the first `read` records, or all present ones, are old."""
        self.read, self.epoch = len(self.records) if old is None else old, epoch
        self.repeats = self.asks = self.agreements = 0
        self.seen.clear()
        under_way = self.records[max(0, self.read - FEW) : self.read]
        self.agreed.update(raw[SITE] for raw in under_way if raw[KIND] == "collective" and raw[STREAM] is None)

    def reads_on(self) -> bool:
        """Reads the new records. Returns False at the first record that is progress."""
        records = self.records
        for at in range(self.read, len(records)):
            raw = records[at]
            if not self._repeats(raw):
                return False
            self.repeats += 1
            self.asks += raw[KIND] in POLLS
        self.read = len(records)
        return True

    def _repeats(self, raw: RawRecord) -> bool:
        kind = raw[KIND]
        if kind == "take":
            return bool(raw[TAKE_HOW] == "poll" or raw[TAKE_TIMEOUT] is not None)
        if kind == "look":
            return True
        if kind == "store":  # a get with a time-out looks at a key; all else changes the store, or waits without end
            self.agreed.add(raw[SITE])
            return bool(raw[STORE_HOW] == "get" and raw[STORE_VALUE] is not None)
        if kind == "collective" and raw[STREAM] is None:
            self.agreements += 1
            self.agreed.add(raw[SITE])
            return True
        if kind in VALUE:
            value = raw[VALUE[kind]]
            if kind == "learned" and not (value is None or type(value) is bool or raw[SITE] in self.agreed):
                return False
            seen = self.seen[kind, raw[SITE]]
            seen.add(repr(value))
            return len(seen) <= VALUES
        return kind in _NO_PROGRESS or (kind in POLLS and bool(raw[HOW[kind]] == "query"))
