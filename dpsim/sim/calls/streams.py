"""Streams, events and graphs of the simulated machine, as a host thread sees them: how it puts work on a chain of ops.

Events are points in such chains (`dpsim.sim.hosts.chain`), and waiting for one is an edge to the stream's next op.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.calls.streams import JournaledEvent, JournaledStream
from dpsim.backend.graphs.capture import GraphCapture
from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.memory.buffers import JournaledBuffer, of_this_backend
from dpsim.contract.ops import DType
from dpsim.contract.schedule import own_label, visit_label
from dpsim.sim.calls.flags import SimFlag
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.memory.buffers import DeviceStream, SimBuffer, array_of, readable_of, touched
from dpsim.sim.memory.device import Device


class SimStream(JournaledStream, DeviceStream):
    """A stream: its chain, and the host that puts work there."""

    __slots__ = ("chain", "device", "host", "machine")

    def __init__(self, host: Host, device: Device, name: str) -> None:
        super().__init__(host.journal, name)
        self.host = host
        self.machine = host.machine
        self.device = device
        self.chain = device.chain(name)

    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        device, host = self.device, self.host
        if not device.alloc_synchronises:
            return SimBuffer(self, shape, dtype)
        before = device.allocator.taken
        buffer = SimBuffer(self, shape, dtype)
        if device.allocator.taken > before and buffer.count:  # torch takes no memory for an empty tensor
            ends = [end for chain in device.chains.values() if (end := chain.end(host)) is not None]
            host.stand(ends, len(host.records) + 1)  # the record of this allocation is yet to come
        return buffer

    def _launch(self, call: KernelCall) -> None:
        host, machine, device, chain = self.host, self.machine, self.device, self.chain
        reads, writes, cost = call.reads, call.writes, call.cost
        try:
            args = (*[one.readable for one in reads], *[one.array for one in writes], *call.args)  # type: ignore[attr-defined]
        except AttributeError:
            args = (*map(readable_of, reads), *map(array_of, writes), *call.args)
        if cost is None:
            cost = device.costs.kernel
        _, site, ordinal = call.address
        label = visit_label(host.word, site, ordinal) if machine.visible else ""
        op = Op(label, cost, call.kernel, host.device_lives, device.rank, args)
        op.device = device
        op.value = host.word, site, ordinal
        if chain.queue is not None:
            chain.make_room(host)
            chain.queue.append(op)
        if host.chained:
            host.before(op)
        if machine.memory:
            op.footprint = (*op.touches(), *touched(reads, writes)) or None
        chain.append(op)

    def _record(self, number: int) -> JournaledEvent:
        chain = self.chain
        point = chain.end(self.host) if chain.waits else chain.tail
        if point is not None and not self.machine.timed:
            self.machine.mark(point)
        return SimEvent(self.host, number, point)

    def _wait(self, event: JournaledEvent) -> None:
        op = event.op if type(event) is SimEvent else of_this_backend(event, SimEvent).op
        machine = self.machine
        if op is not None and (op.at < 0 or not machine.timed or machine.aborting):  # what it knows goes along the edge
            self.chain.waits.append(op)

    def _wait_flag(self, flag: JournaledFlag) -> None:
        of_this_backend(flag, SimFlag).hold(self.chain)

    def _spin(self, ns: int) -> None:
        self.chain.append(self.host.op(self.host.address("is late for"), ns))


class SimEvent(JournaledEvent):
    """A point in a chain of ops; `op` None: before all of them."""

    __slots__ = ("_seen", "host", "op")

    def __init__(self, host: Host, number: int, op: Op | None) -> None:
        self.journal = host.journal
        self.number = number
        self.point = None
        self.host = host
        self.op = op
        self._seen: Op | None = None

    def _query(self) -> Outcome:
        """Untimed, the device may be slower than it looks: that the point is seen to have passed is an op of its own,
        made when somebody asks, and conflicts with the asking. What the host knows to have passed has.
        """
        host, point, machine = self.host, self.op, self.host.machine
        op = host.op(host.address(), 0, self._passed, host=True)
        if host.rank in machine.failing:
            op.footprint = host.device_lives

        def outcome() -> Generator[Any, Any, bool]:
            if host.gate is not None:
                yield from host.get_through()
            if not machine.timed and not self._known():
                event = ("event", host.rank, self.number)
                if self._seen is None:
                    self._seen = host.op(own_label(host.rank, f"event {self.number} passes"))
                    self._seen.footprint = (*self._seen.touches(), (event, "w"))
                    machine.edge(point, self._seen)
                    machine.submit(self._seen)
                op.footprint = (*op.touches(), (event, "r"))
            machine.submit(op)
            in_vain = machine.timed and not op.value
            yes: bool = yield from (host.in_vain(op) if in_vain else host.wait(op))
            if host.error is not None:
                raise host.error
            if yes and point is not None:
                host.seen_marks |= point.seen_marks
                host.causes |= point.causes
            return yes

        return outcome

    def _again(self, stream: JournaledStream) -> None:
        on: SimStream = of_this_backend(stream, SimStream)
        self.op = of_this_backend(on._record(self.number), SimEvent).op
        self._seen = None

    def _known(self) -> bool:
        return self.op is None or bool(self.host.seen_marks & self.host.machine.mark(self.op))

    def _passed(self) -> bool:
        if self.host.machine.timed:
            return self.op is None or self.op.at >= 0
        return self._known() or (self._seen is not None and self._seen.at >= 0)

    def _synchronize(self) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            if self.op is not None:
                yield from self.host.wait_for_device(self.op)

        return outcome


class SimGraph(JournaledGraph):
    """A graph of one rank: kept, and issued again call by call.

    The calls of a replay go out as any others; what differs is the launch queue, where it is finite: a replay takes one
    place there, and its branches take none.
    """

    __slots__ = ()

    def _put(self, stream: JournaledStream, kept: GraphCapture) -> None:
        on: SimStream = of_this_backend(stream, SimStream)
        chain, queue = on.chain, on.chain.queue
        if queue is None:
            super()._put(stream, kept)
            return
        chain.make_room(on.host)
        chain.queue = None
        try:
            super()._put(stream, kept)
        finally:
            chain.queue = queue
        if chain.tail is not None:
            queue.append(chain.tail)

    def _branch(self, name: str) -> JournaledStream:
        branch: SimStream = of_this_backend(super()._branch(name), SimStream)
        branch.chain.queue = None
        return branch
