"""Touches: keeps the last accesses to a rank's memory for `own_order`, and tests if a new access certainly follows
them.

The test uses only the order that the rank creates by itself. A point of this order is (clock, stream, position): it
follows the op at `position` of a stream, where `clock` was known. A clock is a list with one number for each stream of
the *rank*. All ops of a stream up to this number happened before. A clock changes only when the rank uses a new stream,
which appends a zero.

    memory = Touches()
    side = memory.stream("side")            # behind all that the host knows
    memory.touch(side, reads, writes)       # False: it may have no order with an earlier access

A cell is a range of elements. It keeps its last write, and the later reads that are unordered with each other. It
stores each as a stream and a position and not as a clock.

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
"""The last accesses of some elements of a buffer. The constants below are its indexes. -1 stands for no writer or
reader.
"""

LIFE: Final = 0
WRITER: Final = 1
WROTE: Final = 2
TAG: Final = 3
READER: Final = 4
READ: Final = 5
OTHERS: Final = 6

FEW: Final = 8
"""The largest number of cells that one write leaves separate. It merges more, so that views do not leave
their bounds.
"""


class StreamNow:
    """A stream at its present point. `seen` is the clock of the host when it last issued an op on this stream."""

    __slots__ = ("clock", "number", "position", "seen")

    def __init__(self, number: int) -> None:
        self.number = number
        self.clock: Clock = [0] * (number + 1)
        self.seen: Clock | None = None
        self.position = 0


class Life:
    """A buffer from its alloc to its free. `cells[i]` has the elements from `bounds[i]` on; the last bound is the end.

    `behind`: for each stream, the position that writes of this buffer must come after. `writers`: the streams whose
    writes do.
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
    """Returns a clock that also contains a point."""
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
        self.left: dict[tuple[str, bool], Clock] = {}  # by pool: the last access of freed buffers on each stream

    def learn(self, point: Point) -> None:
        """Adds a point to the clock of the host."""
        self.host = join(self.host, point)

    def stream(self, name: str) -> StreamNow:
        """Returns the stream, at a point after all that the host knows."""
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
        """Adds an op to a stream. Returns False if the op may be unordered with an earlier access."""
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
                    if number not in life.writers:  # clocks only grow, so later writes come after as well
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
        """Returns the cells of some elements; None if the buffer has no such elements."""
        buffer, first, end = ref[:3]
        if first >= end:
            return []
        life = self.lives.get(buffer)
        if life is None or first < 0 or end > life.bounds[-1]:
            return None
        whole = buffer, first, end
        cells = self.cells.get(whole)
        if cells is None:
            if not first and len(life.bounds) == 2 and end == life.bounds[1]:  # most accesses are to a whole buffer
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
        """Merges cells that one write covered."""
        life = self.lives[ref[0]]
        low, high = bisect_left(life.bounds, ref[1]), bisect_left(life.bounds, ref[2])
        del life.bounds[low + 1 : high], life.cells[low + 1 : high]
        self.forget(life)

    def forget(self, life: Life) -> None:
        """Drops the cached cells of a buffer, because its bounds have changed."""
        for ref in life.refs:
            del self.cells[ref]
        life.refs.clear()

    def alloc(self, raw: RawRecord) -> None:
        pool = None
        if raw[ALLOC_PLACE] is not None:
            pool = raw[STREAM], raw[ALLOC_COUNT] * DTYPES[raw[ALLOC_DTYPE]] <= SMALL_BLOCK
        self.lives[raw[BUFFER]] = Life(pool, self.left.get(pool, []) if pool else [], raw[ALLOC_COUNT])

    def free(self, raw: RawRecord) -> bool:
        """Handles a free: later buffers of the pool must come after its last accesses.

        Accesses that happened before the present ends of the streams named by record_stream are exempt.
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
        """Notes that another stream uses a buffer (record_stream). Returns False for an unknown buffer."""
        life = self.lives.get(raw[BUFFER])
        if life is not None:
            life.used.append(raw[STREAM])
        return life is not None


def _over(number: int, position: int, ends: list[StreamNow]) -> bool:
    """Returns whether an op of a stream happened before the present point of one of these streams."""
    return any(end.number == number or end.clock[number] >= position for end in ends)


def _tagged(cell: Cell, tag: Any) -> bool:
    return bool(cell[TAG] is tag or cell[TAG] == tag)


def _cut(life: Life, at: int) -> int:
    """Makes `at` a bound, and returns its index."""
    index = bisect_left(life.bounds, at)
    if life.bounds[index] != at:
        life.bounds.insert(index, at)
        life.cells.insert(index, life.cells[index - 1][:])
    return index
