"""Residency: how many device collectives and transfers of one rank can be under way at once.

While the kernel of a collective waits for its peers, it occupies the GPU. A world may limit this with a number of
*slots* per rank. Then a rank's part of a collective first takes one slot, or as many as `DeviceCommunicator.occupy`
states, all at once. It gives them back when it ends. So two communicators on two streams can deadlock if a rank has one
slot.

A rank's part of a collective takes its slots at the head of its stream, after the rank's earlier parts on this
communicator. NCCL also starts its kernels in order. In timed mode, parts receive slots in order of arrival; in untimed
mode, the strategy picks the next part.

If no op can happen any more, `full` returns the parts that have slots and the parts that wait for slots.
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
    """The guard of a part: the part can start only if this number of slots is free."""

    __slots__ = ("number", "slots")

    def __init__(self, slots: Slots, number: int) -> None:
        self.slots, self.number = slots, number

    def open(self) -> bool:
        return self.slots.free >= self.number


class Slots:
    """The slots of one rank."""

    def __init__(self, machine: Machine, rank: int, number: int) -> None:
        self._machine = machine
        machine.guarded = True
        self._rank = rank
        self.free = number
        self._parts: dict[Op, tuple[Op, int, int]] = {}
        """Unfinished parts, by start op: the op at which a part needs slots, its record, its number of slots."""
        self._queue: deque[Op] = deque()
        self.acquires: Footprint = ((("slots", rank), "a"),)
        self.releases: Footprint = ((("slots", rank), "l"),)

    def start(self, host: Host, label: str, before: Sequence[Op], last: Op | None, number: int = 1) -> Op:
        """Returns the op by which a part takes `number` slots, after the ops `before` and `last`."""
        machine, rank = self._machine, host.rank
        head, start = Op("", life=rank), Op(label, 0, None, self.acquires + (host.device_lives or ()), rank)
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
        """Returns the op by which a part gives back its slots after `end`."""
        op = Op(label, 0, self._give_back, self.releases + (host.device_lives or ()), host.rank)
        op.args = (start,)
        self._machine.mark(op)
        self._machine.edge(end, op)
        self._machine.submit(op)
        return op

    def full(self) -> Occupied | None:
        """Returns the parts that have slots and the parts that wait for some; None if no part has to wait."""
        waiting = [record for start, (head, record, _) in self._parts.items() if start.at < 0 <= head.at]
        if self.free and not waiting:
            return None
        held = [record for start, (_, record, _) in self._parts.items() if start.at >= 0]
        return Occupied(self._rank, tuple(held), tuple(waiting))

    def _enter(self, op: Op) -> None:
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
