"""Cells of a buffer: elements that ops always touched as a whole, and their last accesses.

A segment is cut at each boundary of an access:

    >>> whole = Cell()
    >>> segment = CellRange((0, 0, 8), whole)
    >>> [low] = segment.span(0, 4)
    >>> low is whole, len(segment.span(0, 8))
    (True, 2)

`shadow` says what a cell keeps, and when it may forget it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, NamedTuple, TypeAlias

from dpsim.checks.happens_before.points import StreamPoint
from dpsim.contract.ops import Ref


class NoTag:
    """Stands in the place of a tag if there is none."""


class Access(NamedTuple):
    """An op touches a piece of memory. `at` is its index in the journal of the stream's rank. `tag`: the version that
    it leaves or expects.
    """

    stream: StreamPoint
    position: int
    at: int
    buffer: int
    group: int | None
    how: str  # read or write
    tag: Any = NoTag


RawAccess: TypeAlias = tuple[StreamPoint, int, int, int, int | None, str] | tuple[Any, ...]
"""An `Access` in a cell: a plain tuple costs a fifth. Its fields stand at the positions below; an access without a tag
ends before it.
"""

BY_STREAM: Final = 0
BY_POSITION: Final = 1
BY_HOW: Final = 5


class Cell:
    """Elements that ops always touched as a whole."""

    __slots__ = ("raced", "reads", "writes")

    def __init__(self) -> None:
        self.writes: list[RawAccess] = []
        self.reads: list[RawAccess] = []
        self.raced = False  # perhaps the cell keeps a read without an order with a write

    def copy(self) -> Cell:
        cell = Cell()
        cell.writes, cell.reads, cell.raced = list(self.writes), list(self.reads), self.raced
        return cell


class CellRange:
    """Cells side by side: `bounds[i]` is the start of `cells[i]`; None for elements without an access."""

    __slots__ = ("bounds", "cells")

    def __init__(self, ref: Ref, cell: Cell) -> None:
        """Begins with the cell of some elements."""
        self.bounds = [ref[1], ref[2]]
        self.cells: list[Cell | None] = [cell, None]

    def span(self, first: int, end: int) -> list[Cell]:
        """The cells from `first` to `end`, which become bounds. Earlier cells there may be replaced."""
        low, high = self._cut(first), self._cut(end)
        found = [cell or Cell() for cell in self.cells[low:high]]
        self.cells[low:high] = found
        return found

    def merge(self, first: int, end: int) -> None:
        """Keep one cell from bound `first` to bound `end`: the first of the present ones."""
        low, high = bisect_left(self.bounds, first), bisect_left(self.bounds, end)
        del self.bounds[low + 1 : high], self.cells[low + 1 : high]

    def _cut(self, at: int) -> int:
        """Make `at` a bound, and return its index."""
        index = bisect_left(self.bounds, at)
        if index == len(self.bounds) or self.bounds[index] != at:
            left = self.cells[index - 1] if index else None
            self.bounds.insert(index, at)
            self.cells.insert(index, left.copy() if left else None)
        return index
