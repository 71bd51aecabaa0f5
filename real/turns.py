"""Orders the host threads of a rank as in another run, at the gates of that run (`dpsim.contract.gates.Turn`).

A turn is a call of a thread, or the end of a call, where the thread gets the outcome. Each turn comes after the turn
that came before it in the other run. The Python code between two turns is one step, so other threads wait until a
thread that runs Python has reached its next turn:

    u0     set ready.come, take a ticket in Python, wait ...
    u1                                             set ready.come, take a ticket ...

To wait for its turn, a thread takes the lock of all calls, and releases the lock while it waits.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from dpsim.contract.gates import Turn
from dpsim.contract.world import World
from real.issuing import ISSUING
from real.waiting import GLANCE_SECONDS, Patience

Point: TypeAlias = tuple[str, str, int, bool]
"""A turn: thread, site, ordinal, and whether it concerns the end of that call."""


class Before(NamedTuple):
    """The turn that comes before another one. `runs_on`: its thread then runs Python, until it reaches its next
    turn.
    """

    point: Point
    runs_on: bool


class OrderOfTurns:
    """The turns of one rank. `after`: for each turn, the one before it."""

    def __init__(self, after: Mapping[Point, Before], patience: Patience) -> None:
        self._after, self._patience = after, patience
        self._changed = threading.Condition(ISSUING)
        self._begun: Counter[int] = Counter()
        self._had: dict[Point, tuple[int, int]] = {}

    def come(self, point: Point) -> None:
        """The calling thread waits here until it has its turn."""
        thread = threading.get_ident()
        with self._changed:
            self._begun[thread] += 1
            self._changed.notify_all()
            before = self._after.get(point)
            while before is not None and not self._over(before):
                self._changed.wait(GLANCE_SECONDS)
                self._patience.check()
            self._had[point] = thread, self._begun[thread]
            self._changed.notify_all()

    def ends(self) -> None:
        """The calling thread ends, or has no further turn."""
        with self._changed:
            self._begun[threading.get_ident()] += 1
            self._changed.notify_all()

    def _over(self, before: Before) -> bool:
        thread, started = self._had.get(before.point, (0, 0))
        passed = not before.runs_on or thread == threading.get_ident() or self._begun[thread] > started
        return before.point in self._had and passed


def turns_of(world: World, rank: int, patience: Patience) -> OrderOfTurns | None:
    """Returns the turns of this rank's threads; None if the world has no such gates."""
    turns = [one for one in world.gates if isinstance(one, Turn) and one.of == "thread" and one.at[0] == rank]
    after = {(*one.at[1:], one.end): Before((*one.before[1:], one.before_end), one.runs_on) for one in turns}
    return OrderOfTurns(after, patience) if after else None
