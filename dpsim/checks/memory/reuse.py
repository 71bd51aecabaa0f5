"""Reuse: finds buffers that may get the memory of an earlier buffer while ops still access it.

Freed memory returns to its *pool*. A pool belongs to one rank, one stream, and small or large blocks. The CUDA
allocator may give the memory to any later buffer of the pool. Which one depends on other live buffers, on splits and
merges of blocks, and on timing. So the addresses of this run prove nothing, and this check covers all possible layouts
at once.

The rule: let the program free B before it allocates N from the same pool. Then each access of B has to come before each
write of N, unless `record_stream` protects B.

    stream:   main                                  side
              alloc a; write a; free a              read a             <- not ordered with the write of b
              alloc b; write b

`record_stream` names streams that use B. Each gets a *mark*: its end at the time of the free. B's memory returns to the
pool only after the named streams have passed their marks. So a mark *covers* the accesses that happened before it, and
all accesses on its stream. If a mark comes after the allocation of N, or is never passed, N does not get the memory.

Reads of N need no check, because a read follows a write of N or is a separate finding. The pool keeps only the last
access of B on each stream, because the earlier ones precede it. For each stream, only the first write of N is compared.
If the walk over the journals meets an access of B after a write of N, it compares the two then. Pairs with marks that
the walk has not reached are decided at its end.

`docs/design/checks.md` explains why this finds every conflict, and names one false one.
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
"""The number of kept accesses from which on the pool tries to forget some."""


class BlockPool:
    """The pool of one stream and one class of block sizes.

    `freed` counts the buffers that it got back. `left` has their last accesses, sorted, on each stream; a later write
    may be unordered with them. `written` is the greatest `Lifetime.after` of a written buffer.
    """

    __slots__ = ("freed", "left", "written")

    def __init__(self) -> None:
        self.freed = 0
        self.left: dict[StreamPoint, list[tuple[int, int, RawAccess, Lifetime]]] = {}
        self.written = 0


class Lifetime:
    """A buffer from its allocation on.

    `pool` is None if the backend records no addresses, or if the walk has not reached the alloc. `after` counts the
    buffers that the pool had got back by then, and `held` is explained at `HostPoint`. `freed` is its own number among
    these buffers, or 0 while it lives. `last` has its last access on each stream, and `written` the first write of each
    stream in `writers`, with its clock. `spans` and `segment` are its cells (see `shadow`).
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
        """Drops all state but the marks, because no further access can follow."""
        del self.last, self.written, self.spans, self.segment


class Conflict(NamedTuple):
    """An access of a buffer, and an unordered write of another buffer that may have its memory.

    `stale`: the write happened before the access.
    """

    old: Lifetime
    access: RawAccess
    new: Lifetime
    write: RawAccess
    stale: bool


class Reuse:
    """The pools of a rank. `found` has the conflicts so far."""

    def __init__(self) -> None:
        self.found: list[Conflict] = []
        self.unsure = False
        """Whether the result depends on when a host allocated, although hosts are no actors in this walk's clocks."""
        self._pools: dict[tuple[str, bool], BlockPool] = {}
        self._recent: list[Lifetime] = []  # allocated since all issued ops had last executed
        self._open: list[Conflict] = []  # possible conflicts whose marks are not reached yet
        self._host: HostPoint | None = None
        self._kept, self._most = 0, MANY

    def taken(self, life: Lifetime, host: HostPoint, home: str, small: bool) -> None:
        """Handles an allocation by the host."""
        pool = self._pools.get((home, small))
        if pool is None:
            pool = self._pools[home, small] = BlockPool()
        life.pool = pool
        life.after, life.held = pool.freed, host.held
        self._host = host
        self._recent.append(life)

    def freed(self, life: Lifetime, marks: Mapping[StreamPoint, Signal]) -> None:
        """Handles a free by the host."""
        life.freed, life.marks = 1, marks
        pool = life.pool
        if pool is not None:
            pool.freed += 1
            life.freed = pool.freed
            for access in life.last.values():
                self._keep(pool, life, access)

    def settled(self) -> None:
        """Handles that all issued ops have executed, so that freed buffers have no further accesses."""
        self._recent.clear()

    def wrote(self, life: Lifetime, write: RawAccess) -> None:
        """Handles the first write of a buffer on a stream."""
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
        """Handles an access of a buffer that its host has already freed.

        The host issued the access before the free. So no write of a newer buffer that the walk has met comes after the
        access.
        """
        pool, stream = life.pool, access[BY_STREAM]
        if pool is None or stream in life.marks:
            return
        if pool.written < life.freed or not any(map(self._decide, self._before(life, pool, access))):
            self._keep(pool, life, access)

    def close(self) -> None:
        """Handles the end of the walk: marks that it has not reached are never passed."""
        known = {(conflict.old.number, conflict.access) for conflict in self.found}
        opened, self._open = self._open, []
        for conflict in _stale_first(opened):
            once = conflict.old.number, conflict.access
            if once not in known and self._decide(conflict):
                known.add(once)
        self._open.clear()

    def _before(self, old: Lifetime, pool: BlockPool, access: RawAccess) -> list[Conflict]:
        """Returns the writes of newer buffers that the walk met before this access of an older one, as conflicts."""
        stream = access[BY_STREAM]
        found = []
        for new in self._recent:
            if new.pool is pool and new.after >= old.freed:
                for write, _ in new.written:
                    stale = stream.clocks.knows(stream.clock, write[BY_STREAM].actor, write[BY_POSITION])
                    found.append(Conflict(old, access, new, write, stale))
        return _stale_first(found)

    def _keep(self, pool: BlockPool, life: Lifetime, access: RawAccess) -> None:
        """Keeps an access for comparison with later buffers of the pool."""
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
        """Forgets accesses that happened before the present points of all streams, because all later ops
        follow them.
        """
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
        """Compares a write with the kept accesses of older buffers."""
        stream, after = write[BY_STREAM], new.after
        knows = stream.clocks.knows
        for on, left in pool.left.items():
            if on is stream:
                continue
            for index in range(len(left) - 1, -1, -1):
                position, end, access, old = left[index]
                if knows(clock, on.actor, position):
                    break  # the earlier ones happened before as well
                if end <= after and self._decide(Conflict(old, access, new, write, False)):
                    del left[index]

    def _decide(self, conflict: Conflict) -> bool:
        """Returns whether this access needs no further comparison: it is a conflict, or a mark covers it."""
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
        """Returns whether the marks of its buffer cover an access."""
        stream, position = access[BY_STREAM], access[BY_POSITION]
        return stream in old.marks or any(
            mark.clock is not None and stream.clocks.knows(mark.clock, stream.actor, position)
            for mark in old.marks.values()
        )

    def _may(self, conflict: Conflict) -> bool:
        """Returns whether the memory may have returned before the newer buffer was allocated. All marks are reached."""
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
    """Returns whether the access of an entry has not happened before the present point of one of these streams."""
    return not all(stream.clocks.knows(stream.clock, actor, entry[0]) for stream in streams)
