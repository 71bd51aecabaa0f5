"""Host calls (collectives and transfers) that a host queries, or awaits with a time-out.

    asked = underway.asked()
    yield from asked.query()()                  # True or False
    yield from asked.within(5_000_000)()        # True, or False where the time-out passed

In untimed mode, the schedule decides whether a query of a started collective returns True or False, as for an event. At
the host's first query of a call, the simulation creates an op by which the host sees the end. This op and each query
conflict, so a search tries both orders. A host that has seen the end gets True from all later queries. It also gets
True if one of its gets has timed out since the first query. That time-out passes only when no other op can happen, so
the call has ended by then.

A wait with a time-out for a collective ends when the call ends. If a call need not wait for all members, the strategy
draws whether it does. Each wait with a time-out has a separate draw, since the rank continues after a time-out. The
variant "waits for all" shows something new in two cases. Either the last member never arrives, or it arrives after a
sleep that is longer than the time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias

from dpsim.backend.hosts.work import Outcome
from dpsim.contract.interface import Aborted, HostArray, Received
from dpsim.contract.schedule import visit_label
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.membership import Membership, Part
from dpsim.sim.collectives.parts import EarlyEnd
from dpsim.sim.collectives.served import served
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import MayWaitInTime
from dpsim.sim.hosts.host import Host
from dpsim.sim.services.waiting import Waiting

Visit: TypeAlias = tuple[str, str, int]
"""A call: host thread (as labels name it), site and ordinal."""


class CallsGroup(Protocol):
    """The fields of a communicator that a host call uses."""

    host: Host
    group: Group
    membership: Membership | None

    def error(self, site: str) -> Aborted:
        """Returns the exception that an await raises if an abort ended the call."""


class QueriedCall:
    """A call that its host queries, or awaits with a time-out.

    `last` is the op that ends the call. `resolve` draws how the call ends, and returns the op that an awaiting host
    waits for. `from_any` is set for a receive from any source: the value of this op is the sender's rank.
    """

    __slots__ = (
        "_communicator",
        "_end",
        "_from_any",
        "_known",
        "_last",
        "_part",
        "_point",
        "_resolve",
        "_seen",
        "_visit",
        "_wanted",
    )

    def __init__(
        self,
        communicator: CallsGroup,
        last: Op,
        resolve: Callable[[], Op],
        visit: Visit,
        wanted: HostArray,
        from_any: Op | None = None,
    ) -> None:
        self._communicator, self._visit, self._wanted, self._from_any = communicator, visit, wanted, from_any
        self._last, self._resolve = last, resolve
        self._part: Part | None = None
        self._end: Op | None = None
        self._seen: Op | None = None
        self._known = False
        self._point = Op("")

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, end = self._communicator, self._resolved()
        if self._part is not None:
            yield from over(communicator, self._part, self._visit)
        else:
            yield from unbroken(communicator, self._visit)
        if self._from_any is not None:
            return (yield from received(communicator, self._from_any, self._wanted))
        return (yield from communicator.host.wait(end, self._wanted))

    def queried(self) -> QueriedCall:
        return self

    def _resolved(self) -> Op:
        """Returns the op that an awaiting host waits for. The first call draws it."""
        if self._end is not None:
            return self._end
        communicator, end = self._communicator, self._resolve()
        membership, machine = communicator.membership, communicator.host.machine
        self._part = None if membership is None or membership.aborted else part_of(communicator, end)
        self._end = end if self._part is None else self._part.over
        if not machine.timed:
            self._point.effect, self._point.args = machine.alarms.passed, (self._point,)
            machine.mark(self._point)
            machine.edge(self._end, self._point)
            machine.submit(self._point)
        return self._end

    # ---- queries

    def query(self) -> Outcome:
        host, machine = self._communicator.host, self._communicator.host.machine
        end = self._resolved()
        op = host.op(host.address(), 0, self._is_seen, host=True)

        def outcome() -> Generator[Any, Any, bool]:
            if host.gate is not None:
                yield from host.get_through()
            self._knows(host)
            if not (machine.timed or self._known):
                self._see(host)
                op.footprint = (*op.touches(), (("over", *self._visit), "r"))
            machine.submit(op)
            seen = yield from (host.in_vain(op) if machine.timed and not op.value else host.wait(op))
            self._known = self._known or seen
            if self._known:
                host.seen_marks |= self._point.seen_marks
                host.causes |= end.causes
            yield from self._unbroken()
            return self._known

        return outcome

    def _knows(self, host: Host) -> None:
        self._known = self._known or bool(host.seen_marks & self._point.own_mark)

    def _unbroken(self) -> Generator[Any, Any, None]:
        """Raises `Aborted` where an await would raise it."""
        if self._part is None or self._part.broken:
            yield from unbroken(self._communicator, self._visit)

    def _see(self, host: Host) -> None:
        """Untimed: creates, once, the op by which a host sees the end. Called when a host queries and has not seen the
        end.
        """
        if self._seen is None:
            machine = host.machine
            seen = self._seen = host.op(visit_label(*self._visit, "sees the end of"))  # the schedule decides when
            seen.footprint = (*seen.touches(), (("over", *self._visit), "w"))
            machine.edge(self._resolved(), seen)
            machine.submit(seen)

    def _is_seen(self) -> bool:
        if self._communicator.host.machine.timed:
            return self._resolved().at >= 0
        return self._seen is not None and self._seen.at >= 0

    # ---- waits with a time-out

    def within(self, timeout_ns: int) -> Outcome:
        host = self._communicator.host
        at = host.journal.site, host.journal.ordinal

        def outcome() -> Generator[Any, Any, bool]:
            if host.gate is not None:
                yield from host.get_through()
            self._knows(host)
            if not self._known:
                ends = self._ends(host, at, timeout_ns)
                waiting = Waiting(host.machine, host, timeout_ns, "waits for", at)
                waiting.look_behind(ends)
                yield from host.wait(waiting.op)
                self._known = bool(waiting.result)
                if self._known and self._end is None:
                    self._end = waiting.op  # the end of this wait is the end of the call: no draw remains
            yield from self._unbroken()
            return self._known

        return outcome

    def _ends(self, host: Host, at: tuple[str, int], timeout_ns: int) -> list[Op]:
        """Returns the ops that end a wait with a time-out. If ranks may abort or die, they are the same as for a plain
        await.
        """
        machine, last = host.machine, self._last
        if self._end is not None or self._communicator.membership is not None or machine.partial:
            ends = [self._resolved()]
        else:
            ends = [last]
        if isinstance(last, EarlyEnd) and not machine.timed:
            up = machine.alarms.sleeps.clock(host.causes) + timeout_ns
            label = host.label(at, "waits for all at")
            wait = MayWaitInTime(label, last, last.all_arrived, host, up)
            waits = machine.waits(wait)
            host.causes |= wait.bit
            if waits:
                ends.append(last.all_arrived)
        return ends


def part_of(communicator: CallsGroup, end: Op) -> Part:
    """Wraps the end of a call for a rank that may abort: the rank waits for `Part.over` in place of `end`."""
    assert communicator.membership is not None
    return communicator.membership.part(communicator.host, end)


def unbroken(communicator: CallsGroup, visit: Visit) -> Generator[Any, Any, None]:
    """Raises `Aborted` if this rank has aborted the communicator since it made the call. The thread then continues
    after that abort.
    """
    membership = communicator.membership
    if membership is not None and membership.broken_off is not None:
        yield from communicator.host.wait(membership.broken_off)
        raise communicator.error(visit[1])


def over(communicator: CallsGroup, part: Part, visit: Visit) -> Generator[Any, Any, None]:
    """Waits until a part is over. Raises `Aborted` if an abort ended it."""
    yield from communicator.host.wait(part.over)
    if part.broken:
        raise communicator.error(visit[1])


def received(communicator: CallsGroup, end: Op, array: HostArray) -> Generator[Any, Any, Received]:
    """Returns the result of a receive from any source, with the sender's rank. In worlds with partial kills, the
    sender's death may take the result away.
    """
    host = communicator.host
    source: int = yield from host.wait(end)
    if host.machine.partial:
        name = communicator.group.spec.name
        yield from host.wait(served(host, name, (source,), end, on_device=False))
    return Received(source, array)
