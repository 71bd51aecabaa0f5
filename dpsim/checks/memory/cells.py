"""Cells: divides a buffer into ranges of elements that ops always accessed as a whole, each with its last accesses.

Each range is a cell. An access that covers a part of a cell splits the cell in two:

    >>> whole = Cell()
    >>> segment = CellRange((0, 0, 8), whole)
    >>> [low] = segment.span(0, 4)
    >>> low is whole, len(segment.span(0, 8))
    (True, 2)

`shadow` decides which accesses a cell keeps, and when it forgets them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, NamedTuple, TypeAlias

from dpsim.checks.happens_before.points import StreamPoint
from dpsim.contract.ops import Ref


class NoTag:
    """The value in place of a tag if there is none."""


class Access(NamedTuple):
    """An access of a range of memory by an op.

    `at` is the index of the op in the journal of the stream's rank. `tag` is the version that a write leaves or that a
    read expects.
    """

    stream: StreamPoint
    position: int
    at: int
    buffer: int
    group: int | None
    how: str  # read or write
    tag: Any = NoTag


RawAccess: TypeAlias = tuple[StreamPoint, int, int, int, int | None, str] | tuple[Any, ...]
"""An `Access` as a plain tuple, which costs a fifth. The constants below are indexes of its fields. The tag may be
absent.
"""

BY_STREAM: Final = 0
BY_POSITION: Final = 1
BY_HOW: Final = 5


class Cell:
    """The last accesses of a range of elements that ops always accessed as a whole."""

    __slots__ = ("raced", "reads", "writes")

    def __init__(self) -> None:
        self.writes: list[RawAccess] = []
        self.reads: list[RawAccess] = []
        self.raced = False  # the cell may have a read that is unordered with a write

    def copy(self) -> Cell:
        cell = Cell()
        cell.writes, cell.reads, cell.raced = list(self.writes), list(self.reads), self.raced
        return cell


class CellRange:
    """Adjacent cells: `bounds[i]` is the start of `cells[i]`. A cell is None if no op has accessed its elements."""

    __slots__ = ("bounds", "cells")

    def __init__(self, ref: Ref, cell: Cell) -> None:
        """Starts with one cell for the elements of `ref`."""
        self.bounds = [ref[1], ref[2]]
        self.cells: list[Cell | None] = [cell, None]

    def span(self, first: int, end: int) -> list[Cell]:
        """Returns the cells from `first` to `end`, and splits cells at these bounds. Callers must drop cells from
        earlier calls.
        """
        low, high = self._cut(first), self._cut(end)
        found = [cell or Cell() for cell in self.cells[low:high]]
        self.cells[low:high] = found
        return found

    def merge(self, first: int, end: int) -> None:
        """Merges all cells between the bounds `first` and `end`, and keeps the first of them."""
        low, high = bisect_left(self.bounds, first), bisect_left(self.bounds, end)
        del self.bounds[low + 1 : high], self.cells[low + 1 : high]

    def _cut(self, at: int) -> int:
        """Makes `at` a bound, and returns its index."""
        index = bisect_left(self.bounds, at)
        if index == len(self.bounds) or self.bounds[index] != at:
            left = self.cells[index - 1] if index else None
            self.bounds.insert(index, at)
            self.cells.insert(index, left.copy() if left else None)
        return index
