"""The contract on the simulated machine: one rank, as the program on its host thread sees it.

This file contains messages, sleeps, and the methods that make the rank's objects. `dpsim.sim.hosts.host` contains what
a host thread has issued and learned. The device is in `dpsim.sim.memory.device`, streams in `dpsim.sim.calls.streams`,
and communicators in `dpsim.sim.calls.communicators`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, TypeAlias

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.calls.rank import JournaledRank
from dpsim.backend.hosts.making import NOTHING, Made
from dpsim.backend.hosts.threads import JournaledFlag, JournaledThread, ThreadProgram
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.issue import Issue
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.events import DELIVERS, DELIVERS_FROM_OUTSIDE, IS_LATE_FOR, LETS_IN, WAITS_IN_VAIN, visit_label
from dpsim.contract.interface import Frozen, Stream
from dpsim.contract.rules.made_groups import GroupSpecs
from dpsim.contract.world import CommunicatorSpec, Message, outside
from dpsim.sim.calls.flags import SimFlag
from dpsim.sim.calls.streams import SimGraph, SimStream
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.threads import SimThread, Threads
from dpsim.sim.memory.device import Device
from dpsim.sim.services.mailbox import Mailboxes
from dpsim.sim.services.notices import Notices
from dpsim.sim.services.ports import Ports
from dpsim.sim.services.stores import join_store, open_store

Begin: TypeAlias = Callable[["SimRank", SimThread, ThreadProgram], Coroutine[Any, Any, None]]
"""Returns the coroutine that runs a host thread which a program starts."""


class SimRank(JournaledRank):
    """One rank of the simulation. `host_thread` is its host; of several `threads`, the one that runs."""

    __slots__ = ("_begin", "_boxes", "_notices", "_ports", "connect", "host_thread", "own_device", "threads")

    def __init__(
        self,
        host: Host,
        device: Device,
        boxes: Mailboxes,
        notices: Notices,
        ports: Ports,
        threads: Threads | None = None,
        begin: Begin | None = None,
    ) -> None:
        super().__init__(host.journal if threads is None else threads.journal)
        self.host_thread = host if threads is None else threads.host
        self.own_device = device
        self.threads = threads
        self._boxes = boxes
        self._notices = notices
        self._ports = ports
        self._begin = begin
        self.connect: Callable[[CommunicatorSpec], Any] = _alone
        """Returns this rank's communicator of a group that ranks make during the run."""

    def died(self, by: Op) -> None:
        """A kill has ended the rank: its hosts and its device stop."""
        if self.threads is None:
            self.host_thread.died()
        else:
            self.threads.died()
        self.own_device.lose()
        self._ports.left(self.host_thread, by)
        self._notices.gone(self.rank, partial(self._behind_death, by))

    def cut(self) -> bool:
        """Removes the records of calls that were never reached. Returns whether a host waits in a plain call."""
        return self.host_thread.cut() if self.threads is None else any(host.stands for host in self.threads.hosts)

    def stop(self) -> None:
        """The rank has ended early, by a fault or an error: none of its threads runs on."""
        if self.threads is not None:
            self.threads.over = True
        self._ports.left(self.host_thread, None)
        self.gone()

    def hang(self) -> None:
        """A fault lets the rank hang: none of its threads runs on, and its watchers receive no notice."""
        if self.threads is not None:
            self.threads.over = True

    def gone(self) -> None:
        """The program has ended, in whatever way: the simulation sends notices to the ranks that watch this one."""
        self._notices.gone(self.rank, self._behind)

    def _behind(self, op: Op) -> None:
        for host in self._hosts:
            host.before(op)

    def _behind_death(self, by: Op, op: Op) -> None:
        """The calls that a killed rank had issued and not reached did not happen, so the op follows the kill."""
        self.host_thread.machine.edge(by, op)
        for host in self._hosts:
            op.causes |= host.causes
            op.seen_marks |= host.seen_marks

    @property
    def _hosts(self) -> Sequence[Host]:
        return [self.host_thread] if self.threads is None else self.threads.hosts

    def _make(self, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
        host, *devices = [self.connect(spec) for spec in specs]
        meets = host._start(issues, NOTHING, (0,))

        def outcome() -> Generator[Any, Any, Made]:
            yield from meets()
            return host, devices[0] if devices else None

        return outcome

    def _stream(self, name: str) -> Stream:
        return SimStream(self.host_thread, self.own_device, name)

    def _graph(self, name: str, pool: GraphPool) -> JournaledGraph:
        return SimGraph(self, name, pool)

    def _open_store(self, port: int) -> Outcome:
        return open_store(self.host_thread, self._ports, self.node, port, self.own_device.costs.message)

    def _join_store(self, node: int, port: int, timeout_ns: int | None) -> Outcome:
        took = self.own_device.costs.message
        return join_store(self.host_thread, self._ports, node, port, timeout_ns, took)

    def _flag(self, name: str) -> JournaledFlag:
        return SimFlag(self.host_thread, name)

    def _start(self, name: str, program: ThreadProgram) -> JournaledThread:
        threads = self.threads
        assert threads is not None
        assert self._begin is not None
        if threads.watch is not None:
            threads.watch.started(name, program)
        thread = SimThread(threads, name, threads.host_of(name))
        self.own_device.tell(thread.host)
        threads.begin(thread.host, self._begin(self, thread, program))
        return thread

    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        host = self.host_thread
        host.issue()
        life = ~self.rank if self.rank in host.machine.lossy else None
        delivery = Op(host.address(DELIVERS), self.own_device.costs.message + delay_ns, life=life)
        if host.chained:
            host.before(delivery)
        if delay_ns and not host.machine.timed:
            self._late_for(delivery, delay_ns)
        self._boxes.post(delivery, host.journal.here(), to, mailbox, message, host.issued)

    def _late_for(self, delivery: Op, ns: int) -> None:
        host = self.host_thread
        late = Op(host.address(IS_LATE_FOR), ns, life=delivery.life)
        host.before(late)
        host.machine.alarms.sleep(late, ns)
        host.machine.edge(late, delivery)
        host.machine.submit(late)

    def _watch(self, actor: int, mailbox: str) -> None:
        self._notices.watch(self.host_thread, actor, mailbox, self.own_device.costs.message)

    def from_outside(self, number: int, message: Message) -> None:
        """Sends message `number` of the world (`World.messages`) at the point that this rank has reached."""
        host, at = self.host_thread, (message.mailbox, number)
        host.issue(visit_label(host.word, *at, LETS_IN))
        label = visit_label(message.to, *at, DELIVERS_FROM_OUTSIDE) if host.machine.visible else ""
        delivery = Op(label, self.own_device.costs.message)
        host.before(delivery)
        source = outside(self.rank), "", message.mailbox, number
        self._boxes.post(delivery, source, message.to, message.mailbox, message.content)

    def _take(self, mailbox: str, how: str, delay_ns: int, timeout_ns: int | None) -> Outcome:
        host = self.host_thread
        label, late = host.address(), host.address(IS_LATE_FOR) if delay_ns else ""
        vain = "" if timeout_ns is None else host.address(WAITS_IN_VAIN)
        here, gate = self.journal.here(), self.journal.gate() if self.world.gates else None

        def look() -> Generator[Any, Any, Any]:
            op = host.op(label, host=True)
            alarm = None
            if timeout_ns is not None:
                alarm = Op(vain, timeout_ns, life=~self.rank)
                host.machine.alarms.awaited.add(timeout_ns)
            self._boxes.take(op, here, mailbox, how, alarm, gate)
            if how == "poll" and op.value is None and host.machine.timed:
                return host.in_vain(op)
            return host.wait(op)

        def late_or_idle() -> Generator[Any, Any, Any]:
            if delay_ns:
                yield from host.pause(delay_ns, late)
            host.idle = how == "idle" and gate is None
            message = yield from look()
            host.idle = False
            return message

        return late_or_idle if delay_ns or how == "idle" else look

    def _sleep(self, ns: int) -> Outcome:
        host = self.host_thread
        label = host.address()
        return lambda: host.pause(ns, label)


def _alone(spec: CommunicatorSpec) -> Any:
    raise RuntimeError(f"{spec.name}: the program makes this call after the run has ended")
