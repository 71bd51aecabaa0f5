"""Residency: how many device collectives and transfers of one rank can be under way.

While the kernel of a collective or transfer waits for its peers it occupies the GPU. Where residency is finite, a
member's part first *starts*: it takes slots of its rank, one or as many as `DeviceCommunicator.occupy` says, all at
once. The part *leaves* when it has ended. So two communicators on two streams and one slot can deadlock. A part starts
at the head of its stream, after the rank's earlier work on this communicator: a library starts kernels in order. In
timed mode parts get slots in the order in which they come; in untimed mode the next owner of a slot is a choice.

When the run stands still, `full` reports which parts hold the slots of a rank while others wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dpsim.contract.occupied import Occupied
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Places:
    """The guard of a part: it takes this number of slots, all at once."""

    __slots__ = ("number", "slots")

    def __init__(self, slots: Slots, number: int) -> None:
        self.slots, self.number = slots, number

    def open(self) -> bool:
        return self.slots.free >= self.number


class Slots:
    """The residency of one rank: its slots."""

    def __init__(self, machine: Machine, rank: int, number: int) -> None:
        self._machine = machine
        machine.guarded = True
        self._rank = rank
        self.free = number
        self._parts: dict[Op, tuple[Op, int, int]] = {}
        """Of each part that is not over, by its start: when it comes for slots, its record, and how many it takes."""
        self._queue: deque[Op] = deque()
        self.acquires: Footprint = ((("slots", rank), "a"),)
        self.releases: Footprint = ((("slots", rank), "l"),)

    def start(self, host: Host, label: str, before: Sequence[Op], last: Op | None, number: int = 1) -> Op:
        """The op by which a part takes slots, after these and after the rank's `last` op on the communicator."""
        machine, rank = self._machine, host.rank
        head, start = Op("", life=rank), Op(label, 0, None, self.acquires + (host.device_lives or ()), rank)
        if host.chained:
            host.before(head)
            host.before(start)
        head.effect, head.args = self._enter, (start,)
        machine.edges(before, head)
        machine.edge(last, head)
        machine.edge(head, start)
        self._parts[start] = head, len(host.records) - 1, number
        machine.submit(head)
        return start

    def leave(self, host: Host, label: str, start: Op, end: Op) -> Op:
        """The op by which a part gives its slots back when it has ended."""
        op = Op(label, 0, self._give_back, self.releases + (host.device_lives or ()), host.rank)
        op.args = (start,)
        self._machine.mark(op)
        self._machine.edge(end, op)
        self._machine.submit(op)
        return op

    def full(self) -> Occupied | None:
        """The parts that hold slots and the parts that wait for some; None if no part has to wait."""
        waiting = [record for start, (head, record, _) in self._parts.items() if start.at < 0 <= head.at]
        if self.free and not waiting:
            return None
        held = [record for start, (_, record, _) in self._parts.items() if start.at >= 0]
        return Occupied(self._rank, tuple(held), tuple(waiting))

    def _enter(self, op: Op) -> None:
        """`op` may start when there are slots; called when nothing else holds it back."""
        number = self._parts[op][-1]
        if not self._machine.timed:
            op.guard = Places(self, number)
            op.effect, op.args = self._take, (number,)
            self._machine.submit(op)
        elif self.free >= number and not self._queue:
            self._take(number)
            self._machine.submit(op)
        else:
            self._queue.append(op)

    def _give_back(self, start: Op) -> None:
        self.free += self._parts.pop(start)[-1]
        while self._queue and self.free >= self._parts[self._queue[0]][-1]:
            op = self._queue.popleft()
            self._take(self._parts[op][-1])
            self._machine.submit(op)

    def _take(self, number: int) -> None:
        self.free -= number
