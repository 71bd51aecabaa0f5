"""A caching allocator like PyTorch's: `free` returns memory to the pool of its stream, and the next `alloc` may reuse
it without waiting.

Because `free` never waits, a program can have a use-after-free on its device. Work on *another* stream may still read
the memory, unless the program called `record_stream` for that stream. The rules are those of torch's
CUDACachingAllocator:

* The allocator rounds requests up to 512 bytes. Up to 1 MiB comes from the small pool (segments of 2 MiB), more from
  the large pool (segments of 20 MiB). From 10 MiB on, a segment has the size of the request, rounded up to 2 MiB.
* Only the stream for which a block was allocated reuses it. The allocator takes the smallest free block that fits,
  splits off the rest if it is large enough, and merges free neighbours.
* If other streams used a block (`record_stream`), `free` records how far those streams are *now*. A later allocation
  takes the block back when they have passed that point. Work that they receive after the free is not covered.
* With expandable segments, each stream and pool has one segment, which grows. Then blocks merge further, so reuse
  differs.

The memory is real: a segment is an array of bytes, and a buffer is a view into it. So a kernel that reads a reused
block computes with the new contents: the result is wrong, in addition to the finding.

    >>> pool = CachingAllocator()
    >>> a = pool.alloc("main", 1000)
    >>> pool.free(a)
    >>> pool.alloc("main", 600).place == a.place, pool.alloc("side", 600).place == a.place
    (True, False)
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.contract.dtypes import CARRIERS
from dpsim.contract.ops import DTYPES, SMALL_BLOCK, Place

ROUND = 512
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
LARGE_REQUEST = 10 << 20
ROUND_LARGE = 2 << 20
EXPANDABLE_RESERVE = 256 << 20

Passed = Callable[[], bool]
"""Returns whether a stream has passed a point, as far as the host has learned."""


_TYPES = {name: np.dtype(CARRIERS.get(name, name)) for name in DTYPES}
"""By name of the element type, since numpy parses a name more slowly than it makes an array."""

_spare: list[NDArray[np.uint8]] = []
"""Zeroed memory of small segments from earlier runs. New memory from the system takes longer than a small run."""

MOST_SPARE = 64


def _fresh(size: int) -> NDArray[np.uint8]:
    """`numpy.zeros` may touch memory that malloc had freed: gigabytes for a thousand ranks."""
    if sys.platform == "win32":
        return np.zeros(size, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)


class Segment:
    """The allocator may cut the first `mapped` bytes into blocks. No block was beyond `used`."""

    __slots__ = ("mapped", "memory", "number", "used")

    def __init__(self, number: int, size: int, mapped: int) -> None:
        self.number = number
        self.mapped = mapped
        self.used = 0
        spare = size == SMALL_SEGMENT and _spare
        self.memory: NDArray[np.uint8] = spare.pop() if spare else _fresh(size)


class Block:
    """A piece of a segment, in use or free, with its neighbours."""

    __slots__ = ("after", "before", "free", "pool", "segment", "start", "stop")

    def __init__(self, pool: FreeBlocks, segment: Segment, start: int, stop: int) -> None:
        self.pool = pool
        self.segment = segment
        self.start = start
        self.stop = stop
        self.free = True
        self.before: Block | None = None
        self.after: Block | None = None

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def place(self) -> Place:
        return self.segment.number, self.start, self.stop

    def key(self) -> tuple[int, int, int]:
        """The order of the free list: the smallest block first, then the oldest segment, then the lowest address."""
        return self.stop - self.start, self.segment.number, self.start


class FreeBlocks:
    """The free blocks of one stream and size class (small or large)."""

    __slots__ = ("blocks", "grows", "small")

    def __init__(self, small: bool) -> None:
        self.small = small
        self.blocks: list[tuple[int, int, int]] = []
        self.grows: Segment | None = None


class CachingAllocator:
    """The allocator of one rank. Streams are given by name."""

    def __init__(self, expandable: bool = False) -> None:
        self.expandable = expandable
        self.taken = 0
        """How often the allocator took new memory from the device."""
        self._segments: list[Segment] = []
        self._pools: dict[tuple[str, bool], FreeBlocks] = {}
        self._free: dict[tuple[int, int], Block] = {}  # (segment number, start) -> free block
        self._last: dict[int, Block] = {}  # expandable: segment -> its last block
        self._waiting: deque[tuple[Block, list[Passed]]] = deque()

    def alloc(self, stream: str, nbytes: int) -> Block:
        """Returns a block of at least `nbytes` for a stream: the smallest free block that fits, else new memory."""
        if self._waiting:
            self._collect()
        size = max(-(-nbytes // ROUND) * ROUND, ROUND)
        pool = self._pools.get((stream, size <= SMALL_BLOCK))
        if pool is None:
            pool = self._pools[stream, size <= SMALL_BLOCK] = FreeBlocks(size <= SMALL_BLOCK)
        index = bisect_left(pool.blocks, (size, 0, 0))
        if index < len(pool.blocks):
            _, segment, start = pool.blocks.pop(index)
            block = self._free.pop((segment, start))
        else:
            block = self._take(pool, size)
        rest = block.stop - block.start - size
        if rest >= (ROUND if pool.small or self.expandable else SMALL_BLOCK + 1):
            self._split(block, size)
        block.free = False
        if block.stop > block.segment.used:
            block.segment.used = block.stop
        return block

    def free(self, block: Block, marks: Sequence[Passed] = ()) -> None:
        """Frees a block. `marks`: for each other stream that used it, whether it has passed its present end."""
        assert not block.free, f"{block.place} is free already"
        if marks:
            self._waiting.append((block, list(marks)))
        else:
            self._release(block)

    def array(self, block: Block, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Returns the memory of a block as an array of that dtype and shape, from the block's start."""
        return np.ndarray(shape, _TYPES.get(dtype, dtype), block.segment.memory, block.start)

    def close(self) -> None:
        """Ends the use of the memory at the end of a run: clears small segments and keeps them for later runs."""
        for segment in self._segments:
            if len(segment.memory) == SMALL_SEGMENT and len(_spare) < MOST_SPARE:
                segment.memory[: segment.used] = 0
                _spare.append(segment.memory)

    @property
    def reserved(self) -> int:
        """Bytes taken from the device."""
        return sum(segment.mapped for segment in self._segments)

    # ---- inside

    def _collect(self) -> None:
        kept: deque[tuple[Block, list[Passed]]] = deque()
        for block, marks in self._waiting:
            left = [mark for mark in marks if not mark()]
            if left:
                kept.append((block, left))
            else:
                self._release(block)
        self._waiting = kept

    def _take(self, pool: FreeBlocks, size: int) -> Block:
        self.taken += 1
        if self.expandable:
            return self._grow(pool, size)
        whole = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        if size >= LARGE_REQUEST:
            whole = -(-size // ROUND_LARGE) * ROUND_LARGE
        segment = Segment(len(self._segments), whole, whole)
        self._segments.append(segment)
        return Block(pool, segment, 0, whole)

    def _grow(self, pool: FreeBlocks, size: int) -> Block:
        segment = pool.grows
        step = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        if segment is None or segment.mapped + size > len(segment.memory):
            reserve = -(-max(EXPANDABLE_RESERVE, size) // step) * step
            segment = pool.grows = Segment(len(self._segments), reserve, 0)
            self._segments.append(segment)
        last = self._last.get(segment.number)
        start = segment.mapped
        if last is not None and last.free:
            self._unlist(last)
            start = last.start
        stop = -(-(start + size) // step) * step  # whole pages, counted from the segment's start
        segment.mapped = stop
        block = last if last is not None and last.free else Block(pool, segment, start, stop)
        if block is last:
            block.stop = stop
        elif last is not None:
            last.after, block.before = block, last
        self._last[segment.number] = block
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.pool, block.segment, block.start + size, block.stop)
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.stop = rest, block.start + size
        if self._last.get(block.segment.number) is block:
            self._last[block.segment.number] = rest
        self._list(rest)

    def _release(self, block: Block) -> None:
        block.free = True
        before, after = block.before, block.after
        if after is not None and after.free:
            self._unlist(after)
            self._swallow(block, after)
        if before is not None and before.free:
            self._unlist(before)
            self._swallow(before, block)
            block = before
        self._list(block)

    def _swallow(self, block: Block, after: Block) -> None:
        block.stop, block.after = after.stop, after.after
        if block.after is not None:
            block.after.before = block
        if self._last.get(block.segment.number) is after:
            self._last[block.segment.number] = block

    def _list(self, block: Block) -> None:
        insort(block.pool.blocks, block.key())
        self._free[block.segment.number, block.start] = block

    def _unlist(self, block: Block) -> None:
        del block.pool.blocks[bisect_left(block.pool.blocks, block.key())]
        del self._free[block.segment.number, block.start]
