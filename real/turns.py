"""In which order the host threads of a rank go on, where a run is made at the gates of another one.

A turn is a call of a thread, or the end of a call, where the thread learns the outcome. A turn comes after the one
that came before it in the other run (`dpsim.contract.gates.Turn`). Python between two turns is one step, so the
others wait until a thread that runs Python is at its next turn:

    u0     set ready.come, take a ticket in Python, wait ...
    u1                                             set ready.come, take a ticket ...

A thread stands at its turn within the lock of all calls, and gives that back while it stands.
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
"""A turn: thread, site, ordinal, and whether it is of the end of that call."""


class Before(NamedTuple):
    """The turn that comes before another one. `runs_on`: its thread runs on in Python, until it is at its next."""

    point: Point
    runs_on: bool


class OrderOfTurns:
    """Of one rank. `after`: of a turn the one before it."""

    def __init__(self, after: Mapping[Point, Before], patience: Patience) -> None:
        self._after, self._patience = after, patience
        self._changed = threading.Condition(ISSUING)
        self._begun: Counter[int] = Counter()
        self._had: dict[Point, tuple[int, int]] = {}

    def come(self, point: Point) -> None:
        """The calling thread stands here until it has its turn."""
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
        """The calling thread ends, or has no turn any more."""
        with self._changed:
            self._begun[threading.get_ident()] += 1
            self._changed.notify_all()

    def _over(self, before: Before) -> bool:
        thread, begun = self._had.get(before.point, (0, 0))
        passed = not before.runs_on or thread == threading.get_ident() or self._begun[thread] > begun
        return before.point in self._had and passed


def turns_of(world: World, rank: int, patience: Patience) -> OrderOfTurns | None:
    """None where the world has no gates of this rank's threads."""
    turns = [one for one in world.gates if isinstance(one, Turn) and one.of == "thread" and one.at[0] == rank]
    after = {(*one.at[1:], one.end): Before((*one.before[1:], one.before_end), one.runs_on) for one in turns}
    return OrderOfTurns(after, patience) if after else None
