"""Touches: the last accesses to the memory of a rank, and whether a new access certainly comes after them.

A point of a rank's own order is (clock, stream, position): behind the op of a stream at a position, where `clock` was
known. A clock has a number for each stream of the *rank*: the position up to which all ops of that stream happened
before. Clocks never change, except for zeros at their ends when the rank uses a new stream.

    memory = Touches()
    side = memory.stream("side")            # behind all that the host knows
    memory.touch(side, reads, writes)       # False: it may have no order with an earlier access

A cell keeps its last accesses as one op per stream, and not as clocks. These are the last write, and the later reads
without an order.

Prior art: FastTrack's epochs (Flanagan and Freund, PLDI 2009).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, TypeAlias

from dpsim.checks.memory.cells import NoTag
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

Clock: TypeAlias = list[int]
Point: TypeAlias = tuple[Clock, int, int]

Cell: TypeAlias = list[Any]
"""The last accesses of some elements of a buffer; the fields stand at the positions below. No writer or reader: -1."""

LIFE: Final = 0
WRITER: Final = 1
WROTE: Final = 2
TAG: Final = 3
READER: Final = 4
READ: Final = 5
OTHERS: Final = 6

FEW: Final = 8
"""The largest number of cells that one write leaves separate. It merges more, because otherwise the cells of every view
would remain.
"""


class StreamNow:
    """A stream at its present point. `seen`: the knowledge of the host when it last put an op there."""

    __slots__ = ("clock", "number", "position", "seen")

    def __init__(self, number: int) -> None:
        self.number = number
        self.clock: Clock = [0] * (number + 1)
        self.seen: Clock | None = None
        self.position = 0


class Life:
    """A buffer from its alloc to its free. Elements from `bounds[i]` on lie in `cells[i]`; the last bound is the end.

    `behind`: for each stream, the position that the writes of this buffer have to come after. `writers`: the streams
    whose writes do.
    """

    __slots__ = ("behind", "bounds", "cells", "pool", "refs", "used", "writers")

    def __init__(self, pool: tuple[str, bool] | None, behind: Clock, count: int) -> None:
        self.pool, self.behind = pool, behind
        self.bounds = [0, count]
        self.cells: list[Cell] = [[self, -1, 0, NoTag, -1, 0, None]]
        self.refs: list[Ref] = []
        self.used: list[str] = []
        self.writers: set[int] = set()


def join(own: Clock, point: Point) -> Clock:
    """A clock with the additional knowledge of a point."""
    known, number, position = point
    joined = own[:]
    for other, upto in enumerate(known):
        if upto > joined[other]:
            joined[other] = upto
    if position > joined[number]:
        joined[number] = position
    return joined


class Touches:
    """The streams and the memory of a rank."""

    def __init__(self) -> None:
        self.host: Clock = []
        self.streams: dict[str, StreamNow] = {}
        self.lives: dict[int, Life] = {}
        self.cells: dict[Ref, list[Cell]] = {}
        self.left: dict[tuple[str, bool], Clock] = {}  # by pool: the last uses of freed buffers, by stream

    def learn(self, point: Point) -> None:
        """The host learns of a point."""
        self.host = join(self.host, point)

    def stream(self, name: str) -> StreamNow:
        """The stream, at a point behind all that the host knows."""
        stream = self.streams.get(name)
        if stream is None:
            stream = StreamNow(len(self.streams))
            for clock in (self.host, *[other.clock for other in self.streams.values()]):
                if len(clock) == stream.number:
                    clock.append(0)
            self.streams[name] = stream
        if stream.seen is not self.host:
            stream.seen = self.host
            stream.clock = join(stream.clock, (self.host, stream.number, 0))
        return stream

    def touch(self, stream: StreamNow, reads: Refs, writes: Refs) -> bool:
        """One more op of a stream; False if it may have no order with an earlier access."""
        number, clock, known = stream.number, stream.clock, self.cells
        stream.position = position = stream.position + 1
        for ref in reads:
            cells = known.get(ref)
            if cells is None:
                cells = self.find(ref)
                if cells is None or (len(ref) > 3 and not all(_tagged(cell, ref[3]) for cell in cells)):
                    return False
            for cell in cells:
                writer = cell[WRITER]
                if writer != number and (writer < 0 or clock[writer] < cell[WROTE]):
                    return False
                reader = cell[READER]
                if reader != number:
                    if reader >= 0 and clock[reader] < cell[READ]:
                        others = cell[OTHERS] = dict(cell[OTHERS] or ())
                        others[reader] = cell[READ]
                    cell[READER] = number
                cell[READ] = position
        for ref in writes:
            cells, tag = known.get(ref), NoTag
            if cells is None:
                cells = self.find(ref)
                if cells is None:
                    return False
                if len(ref) > 3:
                    tag = ref[3]
            for cell in cells:
                writer = cell[WRITER]
                if writer != number:
                    if writer >= 0 and clock[writer] < cell[WROTE]:
                        return False
                    life = cell[LIFE]
                    if number not in life.writers:  # the knowledge of a stream only grows: later writes come after, too
                        for other, upto in enumerate(life.behind):
                            if other != number and clock[other] < upto:
                                return False
                        life.writers.add(number)
                    cell[WRITER] = number
                reader = cell[READER]
                if reader >= 0:
                    if reader != number and clock[reader] < cell[READ]:
                        return False
                    if cell[OTHERS]:
                        for other, upto in cell[OTHERS].items():
                            if other != number and clock[other] < upto:
                                return False
                        cell[OTHERS] = None
                    cell[READER] = -1
                cell[WROTE] = position
                cell[TAG] = tag
            if len(cells) > FEW:
                self.merge(ref)
        return True

    def find(self, ref: Ref) -> list[Cell] | None:
        """The cells of elements; None if the buffer has no such elements."""
        buffer, first, end = ref[:3]
        if first >= end:
            return []
        life = self.lives.get(buffer)
        if life is None or first < 0 or end > life.bounds[-1]:
            return None
        whole = buffer, first, end
        cells = self.cells.get(whole)
        if cells is None:
            if not first and len(life.bounds) == 2 and end == life.bounds[1]:  # most accesses use a whole buffer
                cells = [life.cells[0]]
            else:
                bounds = len(life.bounds)
                low, high = _cut(life, first), _cut(life, end)
                if len(life.bounds) > bounds:
                    self.forget(life)
                cells = life.cells[low:high]
            self.cells[whole] = cells
            life.refs.append(whole)
        return cells

    def merge(self, ref: Ref) -> None:
        """Merge cells that one write covered."""
        life = self.lives[ref[0]]
        low, high = bisect_left(life.bounds, ref[1]), bisect_left(life.bounds, ref[2])
        del life.bounds[low + 1 : high], life.cells[low + 1 : high]
        self.forget(life)

    def forget(self, life: Life) -> None:
        """Its cells have changed."""
        for ref in life.refs:
            del self.cells[ref]
        life.refs.clear()

    def alloc(self, raw: RawRecord) -> None:
        pool = None
        if raw[ALLOC_PLACE] is not None:
            pool = raw[STREAM], raw[ALLOC_COUNT] * DTYPES[raw[ALLOC_DTYPE]] <= SMALL_BLOCK
        self.lives[raw[BUFFER]] = Life(pool, self.left.get(pool, []) if pool else [], raw[ALLOC_COUNT])

    def free(self, raw: RawRecord) -> bool:
        """Later buffers of the pool have to come after the last accesses. Excluded are accesses that are over when the
        streams of record_stream reach their present ends.
        """
        life = self.lives.pop(raw[BUFFER], None)
        if life is None:
            return False
        self.forget(life)
        if life.pool is None:
            return True
        ends = [self.stream(name) for name in life.used if name != raw[STREAM]]
        left = [*self.left.get(life.pool, ())]
        left += [0] * (len(self.streams) - len(left))
        for _, writer, wrote, _, reader, read, others in life.cells:
            last = [(writer, wrote), (reader, read)]
            if others:
                last += others.items()
            for number, position in last:
                if number >= 0 and position > left[number] and not (ends and _over(number, position, ends)):
                    left[number] = position
        self.left[life.pool] = left
        return True

    def use(self, raw: RawRecord) -> bool:
        """The stream of this record uses the memory of its buffer, too."""
        life = self.lives.get(raw[BUFFER])
        if life is not None:
            life.used.append(raw[STREAM])
        return life is not None


def _over(number: int, position: int, ends: list[StreamNow]) -> bool:
    """Whether an op of a stream is over when some streams reach their present points."""
    return any(end.number == number or end.clock[number] >= position for end in ends)


def _tagged(cell: Cell, tag: Any) -> bool:
    return bool(cell[TAG] is tag or cell[TAG] == tag)


def _cut(life: Life, at: int) -> int:
    """Make `at` a bound; the answer is its index."""
    index = bisect_left(life.bounds, at)
    if life.bounds[index] != at:
        life.bounds.insert(index, at)
        life.cells.insert(index, life.cells[index - 1][:])
    return index
