"""A chain of ops: a stream, as the device sees it.

The tail is the op for which the next op waits. A wait for an event puts no op on the stream: the next op gets an
additional edge from the event's point. So after a wait the end of the stream may be no op. `end` returns an op at this
place, and makes one without effect if necessary.

    chain.append(a); chain.waits.append(point); chain.append(b)       # b comes after a and after the point

Where the launch queue is finite, `queue` holds the last ops that were put there, as many as it has room for. The next
op waits until the first of these has ended. Only an op with a record counts: waits, delays and joins do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dpsim.contract.schedule import numbered_label
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Chain:
    """The ops of a stream in their order. `waits`: the points that the next op comes after, beside the tail."""

    __slots__ = ("_joins", "_line", "machine", "name", "queue", "tail", "waits")

    def __init__(self, machine: Machine, name: str, room: int | None = None) -> None:
        self.machine = machine
        self.name = name
        self.tail: Op | None = None
        self.waits: list[Op] = []
        self.queue: deque[Op] | None = None if room is None else deque(maxlen=room)
        self._joins = 0
        self._line: Op | None = None  # the end of the last call that stands here for room

    def make_room(self, host: Host) -> None:
        """The host puts work here, by a call whose record is its last. If the queue is full, the host stands in that
        call until there is room. The caller adds the work to the queue.
        """
        queue = self.queue
        if queue is None or len(queue) < (queue.maxlen or 0):
            return
        if not host.turns:
            host.stand((queue[0],), len(host.records))
            return
        # Other threads put work here while this one stands: each in the order in which it came, as the records have it.
        before, through = self._line, Op("", life=~host.rank)
        self._line, first = through, None
        while queue[0] is not first:
            first = queue[0]
            host.stand((first,) if before is None else (first, before), len(host.records))
        self.machine.submit(through)

    def append(self, op: Op) -> None:
        """Put an op at the end."""
        machine = self.machine
        if self.waits:
            machine.edges(self.waits, op)
            self.waits = []
        before, self.tail = self.tail, op
        # `edge`, written out: every op of a stream comes here, and a call more would cost a timed run an eightieth of
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
                return  # one thing more and one thing less to wait for
            if not machine.timed:
                op.seen_marks |= before.seen_marks
                op.causes |= before.causes
        machine.submit(op)

    def end(self, host: Host) -> Op | None:
        """The op after which all that the stream has so far is done; None if there is nothing. `host`: the host that
        asks.
        """
        if self.waits:
            self._joins += 1
            label = numbered_label(f"{self.name} joins", self._joins, host.rank) if host.device_lives else ""
            self.append(host.op(label))
        return self.tail

    def heads(self, host: Host) -> Sequence[Op]:
        """What the next op comes after, for one that is not put at the end by `append`."""
        if not self.waits or not self.machine.timed:
            end = self.end(host)
            return () if end is None else (end,)
        waits, self.waits = self.waits, []
        if self.tail is not None:
            waits.append(self.tail)
        return waits
