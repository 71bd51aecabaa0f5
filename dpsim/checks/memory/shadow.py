"""Shadow memory: for each piece of device memory who touched it last, so that each new access is held against those.

Memory is (segment, byte range) where the backend says where a buffer lies, else each buffer is a segment of its own
and reuse is not claimed. A segment is cut into *cells* at every boundary that an access or an allocation ever named;
a cell keeps the accesses that no later write came after. What a write came after may be forgotten: whoever does not
know the forgotten one does not know the write either, so an unordered access is always seen against some other,
though not against every one. Cells outlive buffers: an access of an older buffer stays until memory is overwritten
in order, which is how reuse in flight shows.

    stream:   main                              side
              alloc a; write a
              free a; alloc b (same place)      read a        <- not ordered: a's read against b's allocation

What is noted (`Memory.pairs`, `Memory.stale`) is raw; `race` and `stale` make findings of it.

Prior art: FastTrack's shadow words; the CUDA sanitizer keeps one entry for each data pointer and forgets it at free,
and so misses views and reuse.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.checks.happens_before.points import Signal, StreamPoint
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.memory.cells import (
    BY_AT,
    BY_BUFFER,
    BY_GROUP,
    BY_POSITION,
    BY_STREAM,
    Access,
    Cell,
    RawAccess,
    Segment,
)
from dpsim.ops import ALLOC_COUNT, ALLOC_DTYPE, ALLOC_PLACE, BUFFER, DTYPES, RawRecord, Ref, Refs
from dpsim.world import Run, World


class Pair(NamedTuple):
    """Two accesses of one piece of memory of which neither happened before the other; issued in this order."""

    rank: int
    first: Access
    second: Access


class Stale(NamedTuple):
    """An access that came in order, but too late (`over`: what wrote a newer buffer there before) or too early."""

    rank: int
    access: Access
    over: Access | None  # None: nothing was written there before


class Memory:
    """The memory of all ranks while a `Walk` goes over a run."""

    def __init__(self, ranks: int) -> None:
        self.pairs: list[Pair] = []
        self.stale: list[Stale] = []
        self._segments: dict[tuple[int, int | None, int], Segment] = {}
        self._placed: list[dict[int, tuple[Segment, int, int]]] = [{} for _ in range(ranks)]
        self._cells: list[dict[Ref, list[Cell]]] = [{} for _ in range(ranks)]
        self._freed: dict[tuple[int, int], list[Signal]] = {}

    @staticmethod
    def of(world: World, run: Run) -> Memory:
        """All accesses of a run, judged. What was needed only on the way is given up, for it is large."""
        memory = Memory(len(run.journals))
        Walk(world, run, memory).go()
        for shadow in (memory._segments, memory._placed, memory._cells, memory._freed):
            shadow.clear()
        return memory

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None:
        known, position = self._cells[stream.rank], stream.position
        for ref in reads:
            buffer = ref[0]
            access = stream, position, at, buffer, group, "read"
            for cell in known.get(ref) or self._find(stream.rank, ref):
                readers = cell.reads  # most often nobody else was here, or this stream has read it already
                if group is None and cell.owner == buffer and not cell.raced:
                    if readers:
                        for index, (reader, _, _, read, _, _) in enumerate(readers):
                            if reader is stream and read == buffer:
                                readers[index] = access
                                break
                        else:
                            self._read(cell, access)
                        continue
                    old = cell.writes
                    if len(old) == 1 and old[0][BY_STREAM] is stream and old[0][BY_BUFFER] == buffer:
                        readers.append(access)
                        continue
                self._read(cell, access)
        for ref in writes:
            buffer = ref[0]
            access = stream, position, at, buffer, group, "write"
            cells = known.get(ref) or self._find(stream.rank, ref)
            news = False
            for cell in cells:
                old, readers = cell.writes, cell.reads
                if (
                    group is None
                    and cell.owner == buffer
                    and len(old) == 1
                    and old[0][BY_STREAM] is stream
                    and old[0][BY_BUFFER] == buffer
                    and (
                        not readers
                        or (len(readers) == 1 and readers[0][BY_STREAM] is stream and readers[0][BY_BUFFER] == buffer)
                    )
                ):
                    old[0] = access
                    if readers:
                        readers.clear()
                else:
                    self._write(cell, access)
                    news = True
            if news and len(cells) > 1:  # else its own views cut it: they will again
                self._merge(stream.rank, ref, cells)

    def _merge(self, rank: int, ref: Ref, cells: list[Cell]) -> None:
        """Cells that were written as a whole and now say the same become one: else every size that memory was ever
        given out in would leave its bounds there."""
        one = cells[0]
        for cell in cells:
            if cell.reads or cell.raced or cell.writes != one.writes or len(cell.writes) != 1:
                return
            if cell.alloc is not one.alloc or cell.owner != one.owner:
                return
        segment, base, size = self._placed[rank][ref[0]]
        segment.merge(base + ref[1] * size, base + ref[2] * size)
        self._cells[rank].clear()

    def placed(self, rank: int, raw: RawRecord) -> None:
        buffer, count, place = raw[BUFFER], raw[ALLOC_COUNT], raw[ALLOC_PLACE]
        size = DTYPES[raw[ALLOC_DTYPE]]
        segment, first, end = place or (None, 0, count * size)
        key = (rank, segment, -1) if place else (rank, None, buffer)
        kept = self._segments.get(key)
        if kept is None:
            kept = Segment()
            if place:
                self._segments[key] = kept
        self._placed[rank][buffer] = kept, first, size
        if first >= end:
            return
        one = kept.whole(first, end)
        if not kept.bounds:
            one = Cell()
            kept.bounds, kept.cells = [first, end], [one, None]
        if one is not None:
            one.owner = buffer
            self._cells[rank][buffer, 0, count] = [one]
            return
        if kept.cut(first) | kept.cut(end):
            self._cells[rank].clear()
        for cell in kept.span(first, end, make=True):
            cell.owner = buffer

    def alloc(self, stream: StreamPoint, at: int, raw: RawRecord) -> None:
        buffer, count = raw[BUFFER], raw[ALLOC_COUNT]
        access = stream, stream.position, at, buffer, None, "alloc"
        ref, known = (buffer, 0, count), self._cells[stream.rank]
        if len(known) > 4096:  # buffers come and go; the cells themselves stay
            known.clear()
        for cell in known.get(ref) or self._find(stream.rank, ref):
            for other in (*cell.writes, *cell.reads):
                if other[BY_STREAM] is not stream and other[BY_BUFFER] < buffer:
                    self._ordered(other, access)
            if cell.alloc is None or cell.alloc[BY_BUFFER] < buffer:
                cell.alloc = access

    def freed(self, rank: int, buffer: int, marks: list[Signal]) -> None:
        if marks:
            self._freed[rank, buffer] = marks

    def _find(self, rank: int, ref: Ref) -> list[Cell]:
        buffer, first, end, *_ = ref
        placed = self._placed[rank].get(buffer)
        if placed is None or first >= end:
            return []
        segment, base, size = placed
        first, end = base + first * size, base + end * size
        one = segment.whole(first, end)
        if one is not None:
            cells = self._cells[rank][ref] = [one]
            return cells
        if segment.cut(first) | segment.cut(end):
            self._cells[rank].clear()
        cells = self._cells[rank][ref] = segment.span(first, end, make=False)
        return cells

    def _read(self, cell: Cell, access: RawAccess) -> None:
        stream, _, _, buffer, group, _ = access
        written = False
        for write in cell.writes:
            known = (write[BY_STREAM] is stream and group is None) or self._ordered(write, access)
            if not known:
                cell.raced = True
            if write[BY_BUFFER] == buffer:
                written = True
            elif known and write[BY_BUFFER] > buffer:
                self._stale(access, write)
                written = True
        if cell.alloc is not None and cell.alloc[BY_BUFFER] > buffer:
            self._ordered(cell.alloc, access)
        if not written and cell.owner == buffer:
            self._stale(access, None)
        reads = cell.reads
        if group is None:
            for index, other in enumerate(reads):
                if other[BY_STREAM] is stream and other[BY_BUFFER] == buffer:
                    reads[index] = access
                    return
        reads.append(access)

    def _write(self, cell: Cell, access: RawAccess) -> None:
        stream, _, _, buffer, group, _ = access
        handed = cell.alloc
        if handed is not None and handed[BY_BUFFER] > buffer:
            self._ordered(handed, access)
        # what an alloc that has not fired yet is still to meet may not be forgotten
        keep = cell.owner if handed is None or handed[BY_BUFFER] < cell.owner else -1
        left: list[RawAccess] = []
        for write in cell.writes:
            known = (write[BY_STREAM] is stream and group is None) or self._ordered(write, access)
            if not known or write[BY_BUFFER] < keep:
                left.append(write)
            elif write[BY_BUFFER] > buffer:
                self._stale(access, write)
        left.append(access)
        cell.writes = left
        if cell.reads:
            reads = cell.reads
            cell.reads = []
            for read in reads:
                known = (read[BY_STREAM] is stream and group is None) or self._ordered(read, access)
                if not known or read[BY_BUFFER] < keep:
                    cell.reads.append(read)
            cell.raced = bool(cell.reads)

    def _stale(self, access: RawAccess, over: RawAccess | None) -> None:
        self.stale.append(Stale(access[BY_STREAM].rank, Access(*access), Access(*over) if over else None))

    def _ordered(self, old: RawAccess, new: RawAccess) -> bool:
        """Whether `old`, which the walk met first, happened before `new`; notes a pair if it did not."""
        was, position, stream = old[BY_STREAM], old[BY_POSITION], new[BY_STREAM]
        if was is stream:
            if new[BY_GROUP] is None or old[BY_GROUP] != new[BY_GROUP] or old[BY_AT] == new[BY_AT]:
                return True
        elif stream.clocks.knows(stream.clock, was.actor, position):
            return True
        elif old[BY_BUFFER] < new[BY_BUFFER]:
            for mark in self._freed.get((stream.rank, old[BY_BUFFER]), ()):
                if mark.clock is None:
                    continue
                if mark.actor == was.actor:
                    if position <= mark.position:
                        return True
                elif stream.clocks.knows(mark.clock, was.actor, position):
                    return True
        one, other = Access(*old), Access(*new)
        self.pairs.append(Pair(stream.rank, one, other) if one.at <= other.at else Pair(stream.rank, other, one))
        return False
