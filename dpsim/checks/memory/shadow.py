"""Shadow: compares each access to a buffer with the last earlier accesses of the same elements.

A buffer is divided into *cells*, which are ranges of elements that ops always accessed as a whole. A cell keeps the
accesses that no later write follows. It may forget an access that happened before a write. If a later op is unordered
with the forgotten access, it is unordered with the write too. So the check finds each unordered access in a pair with
some other access, though not with every one.

    stream:   main                    side
              write x[0:8]            read x[4:8]             <- not ordered: two cells, and the second has raced

This module treats each buffer separately. It passes the last access of each buffer on each stream, and its first
writes, to `reuse`, which handles buffers that share memory. `race` and `stale` make findings of the results
(`Memory.pairs`, `Memory.stale`, `Memory.versions`).

Prior art: FastTrack's shadow words. PyTorch's CUDA sanitizer keeps one entry for each data pointer and forgets it at
the free, so it finds neither views nor reuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpsim.checks.happens_before.points import HostPoint, Signal, StreamPoint
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.memory.cells import BY_HOW, BY_POSITION, BY_STREAM, Access, Cell, CellRange, RawAccess
from dpsim.checks.memory.reuse import Lifetime, Reuse
from dpsim.contract.ops import (
    ALLOC_COUNT,
    ALLOC_DTYPE,
    ALLOC_PLACE,
    BUFFER,
    DTYPES,
    SMALL_BLOCK,
    STREAM,
    RawRecord,
    Ref,
    Refs,
)
from dpsim.contract.world import Run, World


class Pair(NamedTuple):
    """Two unordered accesses of one memory range, in the order of issue."""

    rank: int
    first: Access
    second: Access


class Stale(NamedTuple):
    """An ordered access without the expected contents.

    `over` is the write of a newer buffer that happened before it; None if no write at all did.
    """

    rank: int
    access: Access
    over: Access | None


class Version(NamedTuple):
    """A read that expects another tag than the write before it left."""

    rank: int
    read: Access
    write: Access


class BuffersByNumber(dict[int, Lifetime]):
    """The buffers of a rank by number. A missing number becomes a new buffer."""

    def __missing__(self, buffer: int) -> Lifetime:
        life = self[buffer] = Lifetime(buffer)
        return life


class Memory:
    """The memory of all ranks. A `Walk` over a run reports every access to it."""

    def __init__(self, ranks: int) -> None:
        self.pairs: list[Pair] = []
        self.stale: list[Stale] = []
        self.versions: list[Version] = []
        self.unsure = False
        """Whether the result is certain only if the walk has hosts among its actors."""
        self._lives = [BuffersByNumber() for _ in range(ranks)]
        self._over: list[list[int]] = [[] for _ in range(ranks)]  # freed buffers that ops may still access
        self._reuse = [Reuse() for _ in range(ranks)]

    @staticmethod
    def of(world: World, run: Run) -> Memory:
        """Returns the results for all accesses of a run, without the intermediate state, which is large."""
        memory = Memory(len(run.journals))
        Walk(world, run, memory).go()
        memory.close()
        if memory.unsure:
            memory = Memory(len(run.journals))
            Walk(world, run, memory, hosts_act=True).go()
            memory.close()
        return memory

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None:
        lives, position = self._lives[stream.rank], stream.position
        for refs, how in (reads, "read"), (writes, "write"):
            for ref in refs:
                buffer = ref[0]
                life, access = lives[buffer], (stream, position, at, buffer, group, how)
                cells = life.spans.get(ref)
                if cells is None:
                    cells = self._find(life, ref)
                    if len(ref) > 3 or not cells:
                        self._tagged(life, ref, access, cells)
                        continue
                life.last[stream] = access
                if life.freed:
                    self._reuse[stream.rank].late(life, access)
                if how == "read":
                    for cell in cells:
                        readers = cell.reads  # mostly none, or this stream alone
                        if not cell.raced:
                            if readers:
                                for index, reader in enumerate(readers):
                                    if reader[BY_STREAM] is stream:
                                        readers[index] = access
                                        break
                                else:
                                    self._read(cell, access)
                                continue
                            old = cell.writes
                            if len(old) == 1 and old[0][BY_STREAM] is stream:
                                readers.append(access)
                                continue
                        self._read(cell, access)
                    continue
                if stream not in life.writers:
                    self._reuse[stream.rank].wrote(life, access)
                news = False
                for cell in cells:
                    old, readers = cell.writes, cell.reads
                    if not old:
                        if readers:
                            self._write(cell, access)
                        else:
                            old.append(access)
                        news = True
                    elif (
                        len(old) == 1
                        and old[0][BY_STREAM] is stream
                        and (not readers or (len(readers) == 1 and readers[0][BY_STREAM] is stream))
                    ):
                        old[0] = access
                        if readers:
                            readers.clear()
                    else:
                        self._write(cell, access)
                        news = True
                if news and len(cells) > 1:  # otherwise views of this stream split it, and will split it again
                    self._merge(life, ref, cells)

    def placed(self, host: HostPoint, raw: RawRecord) -> None:
        rank = host.rank
        if self._over[rank]:
            self._settle(host)
        number, lives = raw[BUFFER], self._lives[rank]
        life = lives[number] if number in lives else Lifetime(number)
        lives[number] = life
        if raw[ALLOC_PLACE] is not None:
            small = raw[ALLOC_COUNT] * DTYPES[raw[ALLOC_DTYPE]] <= SMALL_BLOCK
            self._reuse[rank].taken(life, host, raw[STREAM], small)

    def freed(self, host: HostPoint, buffer: int, marks: Mapping[StreamPoint, Signal]) -> None:
        self._reuse[host.rank].freed(self._lives[host.rank][buffer], marks)
        self._over[host.rank].append(buffer)
        self._settle(host)

    def close(self) -> None:
        """Handles the end of the walk."""
        for rank, reuse in enumerate(self._reuse):
            reuse.close()
            self.unsure |= reuse.unsure
            for _, access, _, write, stale in reuse.found:
                if stale:
                    self._stale(access, write)
                else:
                    self.pairs.append(Pair(rank, Access(*access), Access(*write)))
        self._lives, self._over, self._reuse = [], [], []

    def _settle(self, host: HostPoint) -> None:
        """Forgets freed buffers if all issued ops have executed."""
        if host.idle():
            self._reuse[host.rank].settled()
            over, lives = self._over[host.rank], self._lives[host.rank]
            for buffer in over:
                lives.pop(buffer).forget()
            over.clear()

    def _tagged(self, life: Lifetime, ref: Ref, access: RawAccess, cells: list[Cell]) -> None:
        """Handles an access that has a tag, or has no elements."""
        if not cells:
            return
        stream, access = access[BY_STREAM], (*access, *ref[3:])
        life.last[stream] = access
        if life.freed:
            self._reuse[stream.rank].late(life, access)
        if access[BY_HOW] == "write":
            if stream not in life.writers:
                self._reuse[stream.rank].wrote(life, access)
            for cell in cells:
                self._write(cell, access)
        else:
            for cell in cells:
                if self._read(cell, access) and len(cell.writes) == 1:
                    self._expect(cell.writes[0], access)

    def _find(self, life: Lifetime, ref: Ref) -> list[Cell]:
        """Returns the cells of some elements. If this splits a cell, all cells from earlier calls are invalid."""
        _, first, end, *_ = ref
        spans, segment = life.spans, life.segment
        cells = spans.get(ref[:3])
        if first >= end or cells is not None:
            return cells or []
        if not spans and segment is None:  # most accesses are to a whole buffer
            cells = [Cell()]
        else:
            if segment is None:
                [(known, [cell])] = spans.items()
                segment = life.segment = CellRange(known, cell)
            bounds = len(segment.bounds)
            cells = segment.span(first, end)
            if len(segment.bounds) > bounds:
                spans.clear()
        spans[ref[:3]] = cells
        return cells

    def _merge(self, life: Lifetime, ref: Ref, cells: list[Cell]) -> None:
        """Merges cells that one write covered, so that they have equal contents. Otherwise each view would leave its
        bounds.
        """
        one = cells[0]
        for cell in cells:
            if cell.reads or cell.raced or cell.writes != one.writes or len(cell.writes) != 1:
                return
        if life.segment is not None:
            life.segment.merge(ref[1], ref[2])
        life.spans.clear()

    def _read(self, cell: Cell, access: RawAccess) -> bool:
        """Handles a read of a cell. Returns whether all writes happened before it."""
        stream = access[BY_STREAM]
        before = True
        for write in cell.writes:
            if not self._ordered(write, access):
                cell.raced, before = True, False
        if not cell.writes:
            self._stale(access, None)
        reads = cell.reads
        for index, other in enumerate(reads):
            if other[BY_STREAM] is stream:
                reads[index] = access
                return before
        reads.append(access)
        return before

    def _write(self, cell: Cell, access: RawAccess) -> None:
        for kept in (cell.writes, cell.reads):
            kept[:] = [old for old in kept if not self._ordered(old, access)]
        cell.raced = bool(cell.reads)
        cell.writes.append(access)

    def _expect(self, write: RawAccess, read: RawAccess) -> None:
        """Compares the tag that a read expects with the tag that the write before it left."""
        wrote, access = Access(*write), Access(*read)
        if wrote.tag is not access.tag and wrote.tag != access.tag:
            self.versions.append(Version(read[BY_STREAM].rank, access, wrote))

    def _stale(self, access: RawAccess, over: RawAccess | None) -> None:
        self.stale.append(Stale(access[BY_STREAM].rank, Access(*access), Access(*over) if over else None))

    def _ordered(self, old: RawAccess, new: RawAccess) -> bool:
        """Returns whether `old`, which the walk met first, happened before `new`. Records a pair if it did not."""
        was, stream = old[BY_STREAM], new[BY_STREAM]
        if was is stream or stream.clocks.knows(stream.clock, was.actor, old[BY_POSITION]):
            return True
        one, other = Access(*old), Access(*new)
        self.pairs.append(Pair(stream.rank, one, other) if one.at <= other.at else Pair(stream.rank, other, one))
        return False
