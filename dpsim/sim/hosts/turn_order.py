"""Which turns of a rank's threads come before others in one run.

A *turn* is one scheduler step of a thread: a call and the Python code after it, up to the next call. One turn comes
before another

    by the graph of ops      the other thread waited for a flag, a start, a join, a message or a device. So it
                             has learned of the call that follows the turn
    by conflicting calls     both turns begin with calls on one flag or thread that do not commute, such as two
                             sets. A search tries both orders of such calls

and by chains of these two. `SharedWatch` uses this to find two threads that use a shared variable without order. A
program whose threads draw numbers from one counter can order these draws by calls on a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpsim.contract.schedule import Footprint


class SeenTurns(NamedTuple):
    """`marks`: of the op that begins each turn. `knows`: returns the learned marks. `at`: the step and site."""

    thread: str
    marks: list[int]
    knows: Callable[[], int]
    at: Callable[[], tuple[int, str]]
    order: TurnOrder

    def begin(self, touched: Footprint) -> None:
        """Begins the turn whose op was marked last. `touched`: the flag or thread of its call, as a footprint."""
        self.order.begins(self.marks[-1], self.knows(), touched)

    def around(self, turn: int) -> tuple[int, int]:
        """Returns the marks of the ops that begin and end a turn; 0 if there is none yet."""
        return self.marks[turn - 1] if turn else 0, self.marks[turn] if turn < len(self.marks) else 0


class TurnOrder:
    """The order of turns of one rank in one run."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, int, int]] = []
        self._wrote: dict[object, int] = {}
        self._read: dict[object, int] = {}

    def begins(self, mark: int, knows: int, touched: Footprint) -> None:
        """`mark`: of the op that begins the turn. `knows`: what the thread has learned. `touched`: by its call."""
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
        """Whether a turn comes before the present turn of a thread that has learned the marks `knows`."""
        begin, end = first.around(turn)
        if knows & end:
            return True
        reached, conflicting = knows, 0
        for mark, known, after in reversed(self._begun):
            if mark & reached:
                reached |= known | after
                conflicting |= after
        return bool(end & reached or begin & conflicting)
