"""A chain of ops: a stream, as the device sees it.

The next op of a stream waits for the op at the `tail` of its chain. If the stream waits for an event, this adds no op
to the chain; the next op gets an additional edge from the event. So after such a wait no single op marks the end of the
stream. `end` then appends an op without effect, and returns it.

    chain.append(a); chain.waits.append(point); chain.append(b)       # b comes after a and after the point

With a finite launch queue, `queue` contains the last ops of the chain, as many as the queue has room for. A new op
waits until the oldest of them has ended. Only ops with a record take room; waits, delays and joins do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dpsim.contract.events import JOINS, numbered_label
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Chain:
    """The ops of a stream in order. `waits`: events that the next op waits for, in addition to the tail."""

    __slots__ = ("_joins", "_line", "machine", "name", "queue", "tail", "waits")

    def __init__(self, machine: Machine, name: str, room: int | None = None) -> None:
        self.machine = machine
        self.name = name
        self.tail: Op | None = None
        self.waits: list[Op] = []
        self.queue: deque[Op] | None = None if room is None else deque(maxlen=room)
        self._joins = 0
        self._line: Op | None = None  # the op that ends the last call that waits here for room

    def make_room(self, host: Host) -> None:
        """Waits for room in the queue, in the call of the journal's last record. The caller then appends the work."""
        queue = self.queue
        if queue is None or len(queue) < (queue.maxlen or 0):
            return
        if not host.turns:
            host.stand((queue[0],), len(host.records))
            return
        # Other threads may append work while this one waits: they continue in the order of their records.
        before, through = self._line, Op("", life=~host.rank)
        self._line, first = through, None
        while queue[0] is not first:
            first = queue[0]
            host.stand((first,) if before is None else (first, before), len(host.records))
        self.machine.submit(through)

    def append(self, op: Op) -> None:
        """Appends an op to the stream, and submits it."""
        machine = self.machine
        if self.waits:
            machine.edges(self.waits, op)
            self.waits = []
        before, self.tail = self.tail, op
        # The body of `edge`, copied: each op of a stream passes here, and a call would cost a timed run an eightieth of
        # its time.
        if before is not None:
            if machine.aborting:
                machine.inherit(before, op)
            if before.at < 0:
                if before.after is None:
                    before.after = op
                elif before.more is None:
                    before.more = [op]
                else:
                    before.more.append(op)
                return  # no `submit`: the new edge and the submit cancel out in `pending`
            if not machine.timed:
                op.seen_marks |= before.seen_marks
                op.causes |= before.causes
        machine.submit(op)

    def end(self, host: Host) -> Op | None:
        """Returns an op that fires when the stream's present work is done; None without work. `host`: who needs it."""
        if self.waits:
            self._joins += 1
            label = numbered_label(f"{JOINS} {self.name}", self._joins, host.rank) if host.device_lives else ""
            self.append(host.op(label))
        return self.tail

    def heads(self, host: Host) -> Sequence[Op]:
        """Returns the ops that the next op has to wait for, if that op is not added by `append`."""
        if not self.waits or not self.machine.timed:
            end = self.end(host)
            return () if end is None else (end,)
        waits, self.waits = self.waits, []
        if self.tail is not None:
            waits.append(self.tail)
        return waits
