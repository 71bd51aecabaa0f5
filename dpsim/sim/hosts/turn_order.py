"""Which turns of a rank's threads come before others in one run.

A turn is one call of a thread and the Python after it, up to the next call. One turn comes before another

    by the graph of ops      the other thread waited for a flag, a start, a join, a message or a device. So it
                             knows of the call that follows the turn
    by conflicting calls     both turns begin with calls on one flag or thread that do not commute, as two sets. A
                             search tries both orders, so a thread that draws a number may say so by such a call

and by chains of both. `SharedWatch` asks this where two threads use one thing and one of them changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpsim.contract.schedule import Footprint


class SeenTurns(NamedTuple):
    """The turns of one thread: the mark of the op that begins each, what the thread knows, and where it is."""

    thread: str
    marks: list[int]
    knows: Callable[[], int]
    at: Callable[[], tuple[int, str]]
    order: TurnOrder

    def begin(self, touched: Footprint) -> None:
        """The turn begins whose op was marked last. `touched`: the flag or thread that its call is on."""
        self.order.begins(self.marks[-1], self.knows(), touched)

    def around(self, turn: int) -> tuple[int, int]:
        """The marks of the ops that begin and end a turn; 0 where it has none, or none yet."""
        return self.marks[turn - 1] if turn else 0, self.marks[turn] if turn < len(self.marks) else 0


class TurnOrder:
    """Of one rank in one run."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, int, int]] = []
        self._wrote: dict[object, int] = {}
        self._read: dict[object, int] = {}

    def begins(self, mark: int, knows: int, touched: Footprint) -> None:
        """A turn begins. `knows`: the marks of all ops that its thread knows. `touched`: what its call is on."""
        after = 0
        for resource, mode in touched:
            after |= self._wrote.get(resource, 0)
            if mode == "w":
                after |= self._read.pop(resource, 0)
                self._wrote[resource] = mark
            else:
                self._read[resource] = self._read.get(resource, 0) | mark
        self._begun.append((mark, knows, after))

    def orders(self, first: SeenTurns, turn: int, knows: int) -> bool:
        """Whether a turn comes before the one of a thread that now knows these marks."""
        begin, end = first.around(turn)
        if knows & end:
            return True
        reached, conflicting = knows, 0
        for mark, known, after in reversed(self._begun):
            if mark & reached:
                reached |= known | after
                conflicting |= after
        return bool(end & reached or begin & conflicting)
