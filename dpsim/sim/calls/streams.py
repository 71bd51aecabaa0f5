"""Streams, events and graphs of the simulated machine, as a host thread uses them.

A stream is a chain of ops (`dpsim.sim.hosts.chain`), and the host appends work to it. An event is a point in such a
chain. If a stream waits for an event, its next op gets an edge from that point.
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
from dpsim.contract.events import EVENT, IS_LATE_FOR, numbered_label, own_label, visit_label
from dpsim.contract.ops import DType
from dpsim.sim.calls.flags import SimFlag
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.memory.buffers import DeviceStream, SimBuffer, array_of, readable_of, touched
from dpsim.sim.memory.device import Device


class SimStream(JournaledStream, DeviceStream):
    """A stream: its chain, and the host that appends work to it."""

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
        if device.allocator.taken > before and buffer.count:  # torch allocates nothing here
            ends = [end for chain in device.chains.values() if (end := chain.end(host)) is not None]
            host.stand(ends, len(host.records) + 1)  # the journal does not contain this allocation yet
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

    def _record(self, number: int, joins: bool = False) -> JournaledEvent:
        chain, host, machine = self.chain, self.host, self.machine
        if machine.timed:
            return SimEvent(host, number, chain.end(host) if chain.waits else chain.tail)
        if joins:
            end = chain.end(host) if chain.waits else chain.tail
            if end is not None:
                machine.mark(end)
            return SimEvent(host, number, end)
        # A host may know that the work before the event is done, and not that the event passed: so it is an op.
        idle, point = chain.tail is None and not chain.waits, Op("", 0, machine.alarms.passed, None, self.device.rank)
        point.args = (point,)
        host.before(point)
        machine.mark(point)
        chain.append(point)
        return SimEvent(host, number, point, idle)

    def _wait(self, event: JournaledEvent) -> None:
        op = event.op if type(event) is SimEvent else of_this_backend(event, SimEvent).op
        machine = self.machine
        if op is not None and (op.at < 0 or not machine.timed or machine.aborting):  # the edge passes on marks
            self.chain.waits.append(op)

    def _wait_flag(self, flag: JournaledFlag) -> None:
        of_this_backend(flag, SimFlag).hold(self.chain)

    def _spin(self, ns: int) -> None:
        op = self.host.op(self.host.address(IS_LATE_FOR), ns)
        self.host.machine.alarms.sleep(op, ns)
        self.chain.append(op)


class SimEvent(JournaledEvent):
    """`op`: the op at this point; timed, None for an empty stream. `idle`: the stream was empty at the record."""

    __slots__ = ("_records", "_seen", "host", "idle", "op")

    def __init__(self, host: Host, number: int, op: Op | None, idle: bool = False) -> None:
        self.journal = host.journal
        self.number = number
        self.point = None
        self.host = host
        self.op = op
        self.idle = idle
        self._seen: Op | None = None
        self._records = 1

    def _query(self) -> Outcome:
        """Untimed, the schedule decides, since a device may be slow, unless the host has learned of the pass."""
        host, machine = self.host, self.host.machine
        op = host.op(host.address(), 0, self._passed, host=True)
        if host.rank in machine.failing:
            op.footprint = host.device_lives

        def outcome() -> Generator[Any, Any, bool]:
            if host.gate is not None:
                yield from host.get_through()
            point, known = self.op, self._known()
            if not (machine.timed or known):
                self._pass()
                op.footprint = (*op.touches(), (("event", host.rank, self.number, self._records), "r"))
            machine.submit(op)
            in_vain = machine.timed and not op.value
            passed: bool = yield from (host.in_vain(op) if in_vain else host.wait(op))
            if host.error is not None:
                raise host.error
            if (passed or known) and point is not None:
                host.seen_marks |= point.seen_marks
                host.causes |= point.causes
            return passed or known

        return outcome

    def _known(self) -> bool:
        """In timed mode the clock decides, so this returns False."""
        point, machine = self.op, self.host.machine
        return point is not None and not machine.timed and bool(self.host.seen_marks & machine.mark(point))

    def _pass(self) -> None:
        """Creates, once a record of the event, the op by which hosts see it pass, which conflicts with each query."""
        if self._seen is None:
            host, machine = self.host, self.host.machine
            label = own_label(host.rank, f"{EVENT} {self.number} passes")
            seen = self._seen = host.op(label if self._records == 1 else numbered_label(label, self._records))
            seen.footprint = (*seen.touches(), (("event", host.rank, self.number, self._records), "w"))
            machine.edge(self.op, seen)
            machine.submit(seen)

    def _passed(self) -> bool:
        """When the query op fires, another host thread may run than the one that queried."""
        if self.host.machine.timed:
            return self.op is None or self.op.at >= 0
        return self._seen is not None and self._seen.at >= 0

    def _again(self, stream: JournaledStream) -> None:
        on: SimStream = of_this_backend(stream, SimStream)
        fresh: SimEvent = of_this_backend(on._record(self.number, on.capture is not None), SimEvent)
        self.op, self.idle, self._seen = fresh.op, fresh.idle, None
        self._records += 1

    def _synchronize(self) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            point = self.op
            if self.idle and point is not None:
                self.host.seen_marks |= point.seen_marks
            elif point is not None:
                yield from self.host.wait_for_device(point)

        return outcome


class SimGraph(JournaledGraph):
    """A CUDA graph of one rank: it keeps the captured calls, and a replay issues them again one by one.

    The replayed calls are ops like any others. Only a finite launch queue treats a replay differently: the whole replay
    takes one place there, and its branches take none.
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
