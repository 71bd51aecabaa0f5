"""Residency: how many device collectives of one rank can be under way.

While a device collective waits for its peers its kernel occupies the GPU. Where residency is finite, a member's
part first acquires a slot of its rank, when it has come to the head of its stream, and releases it when it ends: two
communicators on two streams and one slot can block each other for ever. In timed mode slots are given in the order in
which parts come; where there is no time, who gets one is a choice.
"""

from __future__ import annotations

from collections import deque

from dpsim.schedule import Footprint
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op


class Slots:
    """The residency of one rank: so many device collectives at a time."""

    def __init__(self, machine: Machine, rank: int, number: int) -> None:
        self._machine = machine
        self._free = number
        self._queue: deque[Op] = deque()
        self.acquires: Footprint = ((("slots", rank), "a"),)
        self.releases: Footprint = ((("slots", rank), "l"),)

    def open(self) -> bool:
        return self._free > 0

    def enter(self, op: Op) -> None:
        """`op` may start when a slot is free; called when nothing else holds it back."""
        if not self._machine.timed:
            op.guard = self
            op.effect = self._take
            self._machine.submit(op)
        elif self._free:
            self._take()
            self._machine.submit(op)
        else:
            self._queue.append(op)

    def leave(self) -> None:
        self._free += 1
        if self._queue:
            self._take()
            self._machine.submit(self._queue.popleft())

    def _take(self) -> None:
        self._free -= 1
