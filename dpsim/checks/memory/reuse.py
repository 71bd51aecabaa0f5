"""Reuse: whose memory a buffer may have had before, and who may still be at work on it.

Memory that is freed goes back to its *pool*: that of its rank, its stream, and of small or large blocks. Which later
buffer of the pool gets it nobody may count on: that depends on what else lives, on how blocks are split and merged, and
on when the host asks. So this run's addresses say nothing, and every layout is judged at once: let B be freed before N
is taken from the same pool. Then each access of B has to come before each write of N, unless the allocator was told.

    stream:   main                                  side
              alloc a; write a; free a              read a             <- not ordered with the write of b
              alloc b; write b

Told it was by `record_stream`: B's memory does not come back before the streams that were named have passed the points
where they stood at the free, its *marks*. What came before one of them, or stood on its stream, is over when N is
taken; this *covers* it. Nor does N get the memory if a mark comes after N was taken, or never.

Reads of N need no look: they come after a write of N, or are a finding of their own. Within a stream the last access
of B comes after the others, so it alone is kept; and clocks only grow, so N is looked at once for each stream that
writes it. An access that the walk meets when N was written already is looked at then. What depends on marks that the
walk has not come to is answered when it is over.

`docs/design.md` says why this is complete, and what it takes for a conflict that is none.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from dpsim.checks.happens_before.clocks import Clock
from dpsim.checks.happens_before.points import NO_MARKS, Held, HostPoint, Signal, StreamPoint
from dpsim.checks.memory.cells import BY_POSITION, BY_STREAM, Cell, CellRange, RawAccess
from dpsim.contract.ops import Ref

MANY = 256
"""Kept accesses from which on it is worth a look which of them can be forgotten."""


class BlockPool:
    """Where blocks of a stream come from and go back to.

    `freed`: how many buffers it got back. `left`: the last accesses of these, on each stream in order, which perhaps
    some write does not come after. `written`: the greatest `Lifetime.after` of a buffer that was written.
    """

    __slots__ = ("freed", "left", "written")

    def __init__(self) -> None:
        self.freed = 0
        self.left: dict[StreamPoint, list[tuple[int, int, RawAccess, Lifetime]]] = {}
        self.written = 0


class Lifetime:
    """A buffer from its alloc on.

    `pool`: None where the backend does not say where memory lies, or the walk has not come to the alloc. `after`: how
    many buffers the pool had got back then; `held`: see `HostPoint`. `freed` is where it stands among these itself, 0
    while it lives. `last`: its last access on each stream. `writers`: the streams that have written it; `written`: the
    first write of each, with its clock. `spans` and `segment` are its cells, see `shadow`.
    """

    __slots__ = ("after", "freed", "held", "last", "marks", "number", "pool", "segment", "spans", "writers", "written")

    def __init__(self, number: int) -> None:
        self.number = number
        self.pool: BlockPool | None = None
        self.after = self.freed = 0
        self.held: Held = None
        self.marks: Mapping[StreamPoint, Signal] = NO_MARKS
        self.last: dict[StreamPoint, RawAccess] = {}
        self.writers: tuple[StreamPoint, ...] = ()
        self.written: tuple[tuple[RawAccess, Clock], ...] = ()
        self.spans: dict[Ref, list[Cell]] = {}
        self.segment: CellRange | None = None

    def forget(self) -> None:
        """There will be no accesses any more. Its marks may still be asked for."""
        del self.last, self.written, self.spans, self.segment


class Conflict(NamedTuple):
    """An access of a buffer and a write of another one that may have its memory; `stale`: the write comes before."""

    old: Lifetime
    access: RawAccess
    new: Lifetime
    write: RawAccess
    stale: bool


class Reuse:
    """The pools of a rank."""

    def __init__(self) -> None:
        self.found: list[Conflict] = []
        self.unsure = False
        """Whether it depends on marks that come after an alloc, and the walk had no hosts among its actors."""
        self._pools: dict[tuple[str, bool], BlockPool] = {}
        self._recent: list[Lifetime] = []  # taken since all that was issued had happened
        self._open: list[Conflict] = []  # if marks that were not set yet allow it
        self._host: HostPoint | None = None
        self._kept, self._most = 0, MANY

    def taken(self, life: Lifetime, host: HostPoint, home: str, small: bool) -> None:
        """The host gets a buffer."""
        pool = self._pools.get((home, small))
        if pool is None:
            pool = self._pools[home, small] = BlockPool()
        life.pool = pool
        life.after, life.held = pool.freed, host.held
        self._host = host
        self._recent.append(life)

    def freed(self, life: Lifetime, marks: Mapping[StreamPoint, Signal]) -> None:
        """A buffer is given back."""
        life.freed, life.marks = 1, marks
        pool = life.pool
        if pool is not None:
            pool.freed += 1
            life.freed = pool.freed
            for access in life.last.values():
                self._keep(pool, life, access)

    def settled(self) -> None:
        """All that was issued has happened: no freed buffer has accesses to come."""
        self._recent.clear()

    def wrote(self, life: Lifetime, write: RawAccess) -> None:
        """The first write of a buffer on its stream."""
        stream, pool = write[BY_STREAM], life.pool
        clock = stream.clock
        life.writers += (stream,)
        life.written += ((write, clock),)
        if pool is not None:
            if life.after > pool.written:
                pool.written = life.after
            if pool.left:
                self._look(life, pool, write, clock)

    def late(self, life: Lifetime, access: RawAccess) -> None:
        """An access of a buffer that its host has freed already. It was issued before, so no write of a newer buffer
        that was met comes after it.
        """
        pool, stream = life.pool, access[BY_STREAM]
        if pool is None or stream in life.marks:
            return
        if pool.written < life.freed or not any(map(self._decide, self._before(life, pool, access))):
            self._keep(pool, life, access)

    def close(self) -> None:
        """The walk is over: what marks were not set will not be."""
        known = {(conflict.old.number, conflict.access) for conflict in self.found}
        opened, self._open = self._open, []
        for conflict in _stale_first(opened):
            once = conflict.old.number, conflict.access
            if once not in known and self._decide(conflict):
                known.add(once)
        self._open.clear()

    def _before(self, old: Lifetime, pool: BlockPool, access: RawAccess) -> list[Conflict]:
        """The writes of newer buffers that were met before an access of an older one."""
        stream = access[BY_STREAM]
        found = []
        for new in self._recent:
            if new.pool is pool and new.after >= old.freed:
                for write, _ in new.written:
                    stale = stream.clocks.knows(stream.clock, write[BY_STREAM].actor, write[BY_POSITION])
                    found.append(Conflict(old, access, new, write, stale))
        return _stale_first(found)

    def _keep(self, pool: BlockPool, life: Lifetime, access: RawAccess) -> None:
        """An access that later buffers of the pool have to be held against."""
        stream = access[BY_STREAM]
        if stream in life.marks or not stream.actor:
            return
        left = pool.left.setdefault(stream, [])
        entry = access[BY_POSITION], life.freed, access, life
        if not left or left[-1] < entry:
            left.append(entry)
        else:
            insort(left, entry)
        self._kept += 1
        if self._kept > self._most:
            self._prune()

    def _prune(self) -> None:
        """Forget accesses that all streams know: whatever comes will come after them."""
        assert self._host is not None
        streams = self._host.streams.values()
        self._kept = 0
        for pool in self._pools.values():
            for on, left in pool.left.items():
                others = [stream for stream in streams if stream is not on]
                first = bisect_left(left, True, key=partial(_unknown, others, on.actor))
                del left[:first]
                self._kept += len(left)
        self._most = max(MANY, 2 * self._kept)

    def _look(self, new: Lifetime, pool: BlockPool, write: RawAccess, clock: Clock) -> None:
        """Hold a write against all that is left of older buffers."""
        stream, after = write[BY_STREAM], new.after
        knows = stream.clocks.knows
        for on, left in pool.left.items():
            if on is stream:
                continue
            for index in range(len(left) - 1, -1, -1):
                position, end, access, old = left[index]
                if knows(clock, on.actor, position):
                    break  # and so is what was before
                if end <= after and self._decide(Conflict(old, access, new, write, False)):
                    del left[index]

    def _decide(self, conflict: Conflict) -> bool:
        """Whether nothing more has to be held against this access: it is found, or covered."""
        old, access = conflict.old, conflict.access
        if any(mark.clock is None for mark in old.marks.values()):
            self._open.append(conflict)
            return False
        if self._covers(old, access):
            return True
        if self._may(conflict):
            self.found.append(conflict)
            return True
        return False

    def _covers(self, old: Lifetime, access: RawAccess) -> bool:
        """Whether an access is over when the marks of its buffer have passed."""
        stream, position = access[BY_STREAM], access[BY_POSITION]
        return stream in old.marks or any(
            mark.clock is not None and stream.clocks.knows(mark.clock, stream.actor, position)
            for mark in old.marks.values()
        )

    def _may(self, conflict: Conflict) -> bool:
        """Whether the memory can have come back before the newer buffer was taken, by marks that are all set."""
        host, marks, clocks = self._host, conflict.old.marks.values(), conflict.access[BY_STREAM].clocks
        if host is None or not marks:
            return True
        if not host.actor:
            self.unsure = True
            return True
        held = conflict.new.held
        return held is None or not any(clocks.knows(mark.clock, *held) for mark in marks)


def _stale_first(conflicts: list[Conflict]) -> list[Conflict]:
    return sorted(conflicts, key=lambda conflict: not conflict.stale)


def _unknown(streams: Sequence[StreamPoint], actor: int, entry: tuple[int, int, RawAccess, Lifetime]) -> bool:
    """Whether one of the streams does not come after the access of an entry."""
    return not all(stream.clocks.knows(stream.clock, actor, entry[0]) for stream in streams)
