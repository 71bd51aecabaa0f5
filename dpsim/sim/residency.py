"""Residency: how many device collectives and transfers of one rank can be under way.

While the kernel of a collective or transfer waits for its peers it occupies the GPU. Where residency is finite, a
member's part first *starts*, which takes a slot of its rank, and *leaves* when this part has ended: two communicators
on two streams and one slot can block each other for ever. A part starts when it has come to the head of its stream, and
after what the rank put on this communicator before, since a library starts no kernel before its turn. In timed mode
slots are given in the order in which parts come; where there is no time, who gets one is a choice.

Who holds the slots of a rank for which others wait is told when the run stands still (`full`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dpsim.schedule import Footprint
from dpsim.sim.host import Host
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op
from dpsim.world import Occupied


class Slots:
    """The residency of one rank: so many device collectives and transfers at a time."""

    def __init__(self, machine: Machine, rank: int, number: int) -> None:
        self._machine = machine
        machine.guarded = True
        self._rank = rank
        self._free = number
        self._parts: dict[Op, tuple[Op, int]] = {}
        """Of each part that is not over, by its start: when it comes for a slot, and its record."""
        self._queue: deque[Op] = deque()
        self.acquires: Footprint = ((("slots", rank), "a"),)
        self.releases: Footprint = ((("slots", rank), "l"),)

    def open(self) -> bool:
        return self._free > 0

    def start(self, host: Host, label: str, before: Sequence[Op], last: Op | None) -> Op:
        """The op by which a part takes a slot, after these and after the rank's `last` op on the communicator."""
        machine, rank = self._machine, host.rank
        head, start = Op("", life=rank), Op(label, 0, None, self.acquires + (host.device_lives or ()), rank)
        if host.chained:
            host.before(head)
            host.before(start)
        head.effect, head.args = self._enter, (start,)
        machine.edges(before, head)
        machine.edge(last, head)
        machine.edge(head, start)
        self._parts[start] = head, len(host.records) - 1
        machine.submit(head)
        return start

    def leave(self, host: Host, label: str, start: Op, end: Op) -> Op:
        """The op by which a part gives its slot back when it has ended."""
        op = Op(label, 0, self._give_back, self.releases + (host.device_lives or ()), host.rank)
        op.args = (start,)
        self._machine.mark(op)
        self._machine.edge(end, op)
        self._machine.submit(op)
        return op

    def full(self) -> Occupied | None:
        """Who holds the slots and who waits for one; None if one is free."""
        if self._free:
            return None
        held = [record for start, (_, record) in self._parts.items() if start.at >= 0]
        waiting = [record for start, (head, record) in self._parts.items() if start.at < 0 <= head.at]
        return Occupied(self._rank, tuple(held), tuple(waiting))

    def _enter(self, op: Op) -> None:
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

    def _give_back(self, start: Op) -> None:
        del self._parts[start]
        self._free += 1
        if self._queue:
            self._take()
            self._machine.submit(self._queue.popleft())

    def _take(self) -> None:
        self._free -= 1
