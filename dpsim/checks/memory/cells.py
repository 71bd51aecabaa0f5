"""Cells of device memory: byte ranges that were always touched as a whole, and who touched them last.

A segment is cut at every boundary that an access or an allocation ever named:

    >>> segment = Segment()
    >>> segment.cut(0), segment.cut(512)
    (False, False)
    >>> [whole] = segment.span(0, 512, make=True)
    >>> segment.cut(256), segment.whole(0, 512), len(segment.span(0, 512, make=False))
    (True, None, 2)

What is kept in a cell, and when it may be forgotten, `shadow` says.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple, TypeAlias

from dpsim.checks.happens_before.points import StreamPoint


class Access(NamedTuple):
    """Who touched a piece of memory: `at` is the op's index in the journal of the stream's rank."""

    stream: StreamPoint
    position: int
    at: int
    buffer: int
    group: int | None
    how: str  # read, write or alloc


RawAccess: TypeAlias = tuple[StreamPoint, int, int, int, int | None, str]
"""An `Access` as it is kept: a plain tuple costs a fifth. Its fields stand at the positions below."""

BY_STREAM: Final = 0
BY_POSITION: Final = 1
BY_AT: Final = 2
BY_BUFFER: Final = 3
BY_GROUP: Final = 4


class Cell:
    """A byte range that was always touched as a whole."""

    __slots__ = ("alloc", "owner", "raced", "reads", "writes")

    def __init__(self, owner: int = -1) -> None:
        self.writes: list[RawAccess] = []
        self.reads: list[RawAccess] = []
        self.alloc: RawAccess | None = None
        self.raced = False  # perhaps a read is kept that is in no order with a write
        self.owner = owner  # the newest buffer that was given this memory

    def copy(self) -> Cell:
        cell = Cell(self.owner)
        cell.writes, cell.reads, cell.alloc, cell.raced = list(self.writes), list(self.reads), self.alloc, self.raced
        return cell


class Segment:
    """Cells side by side: `bounds[i]` is where `cells[i]` starts; None where nothing was allocated."""

    __slots__ = ("bounds", "cells")

    def __init__(self) -> None:
        self.bounds: list[int] = []
        self.cells: list[Cell | None] = []

    def cut(self, at: int) -> bool:
        """Make `at` a bound. True if a cell was split."""
        index = bisect_left(self.bounds, at)
        if index < len(self.bounds) and self.bounds[index] == at:
            return False
        left = self.cells[index - 1] if index else None
        self.bounds.insert(index, at)
        self.cells.insert(index, left.copy() if left else None)
        return left is not None

    def whole(self, first: int, end: int) -> Cell | None:
        """The cell from `first` to `end`, if it is one: memory is mostly touched as it was touched before."""
        bounds = self.bounds
        index = bisect_left(bounds, first)
        if index + 1 < len(bounds) and bounds[index] == first and bounds[index + 1] == end:
            return self.cells[index]
        return None

    def span(self, first: int, end: int, make: bool) -> list[Cell]:
        """The cells from bound `first` to bound `end`."""
        low, high = bisect_left(self.bounds, first), bisect_left(self.bounds, end)
        if make:
            for index in range(low, high):
                self.cells[index] = self.cells[index] or Cell()
        return [cell for cell in self.cells[low:high] if cell is not None]

    def merge(self, first: int, end: int) -> None:
        """One cell from bound `first` to bound `end`: the first of those there are."""
        low, high = bisect_left(self.bounds, first), bisect_left(self.bounds, end)
        del self.bounds[low + 1 : high], self.cells[low + 1 : high]
