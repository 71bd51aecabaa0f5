"""Time-outs: what happens when nobody did what was waited for.

A time-out is longer than all that goes on by itself. Where there is time it is an op with a cost, taken back when it is
not needed, so that the run does not last until then. Where there is none it happens when nothing else can, the shortest
first: a run in which a time-out strikes while what it waits for is under way is one with a time-out that is too short,
and no order to explore.

    machine.alarms.set(op, 30_000_000_000)
    machine.alarms.cancel(op)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from dpsim.sim.environment import Environment
from dpsim.sim.op import Op


class Clockwork(Protocol):
    """What time-outs need of a machine."""

    env: Environment
    timed: bool
    submit: Callable[[Op], None]

    @property
    def dead(self) -> Collection[int]:
        """The lives that are over."""


class Alarms:
    """Of one machine."""

    def __init__(self, machine: Clockwork) -> None:
        self._machine = machine
        self._waiting: list[tuple[int, int, Op]] = []
        self._count = 0

    def set(self, op: Op, ns: int) -> None:
        """Let an op happen `ns` from now."""
        if self._machine.timed:
            op.cost = max(ns, 1)
            self._machine.submit(op)
        else:
            self._count += 1
            heappush(self._waiting, (ns, self._count, op))

    def cancel(self, op: Op) -> None:
        """What it was for has happened."""
        queue: list[Any] = self._machine.env._queue
        for entries in (self._waiting, queue):
            entries[:] = [entry for entry in entries if entry[-1] is not op]
            heapify(entries)

    def ring(self) -> bool:
        """There is no time, and nothing else can happen: let the next time-out pass, if there is one."""
        while self._waiting and not self._machine.timed:
            _, _, op = heappop(self._waiting)
            if op.life not in self._machine.dead:
                self._machine.submit(op)
                return True
        return False
