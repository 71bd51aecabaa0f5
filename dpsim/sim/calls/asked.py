"""Calls of a host that it asks whether they are over, or waits for with a time-out.

    asked = underway.asked()
    yield from asked.query()()                  # True or False
    yield from asked.within(5_000_000)()        # True, or False where the time-out passed

An answer of no to a query is a choice, as that of an event is. The op by which the host sees the end is made when it
first asks, and conflicts with the look. A host that has seen the end knows it from then on. So does one at which a
time-out of a get has passed since it first asked, as nothing else could happen then.

A wait with a time-out sees the end when the call is over. What need not wait for all members draws whether it does for
each such wait apart, since a rank goes on behind a time-out. That it does shows something new where the last member
never comes, or comes behind a sleep that outlasts the time-out.
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
"""Host thread as labels name it, site and ordinal."""


class CallsGroup(Protocol):
    """The communicator of a call."""

    host: Host
    group: Group
    membership: Membership | None

    def error(self, site: str) -> Aborted:
        """What an await raises that was broken off."""


class Asked:
    """A call that its host asks for. `last`: the op that ends it, and `resolve` gives what a host waits for that awaits
    it, by a draw. `from_any`: of a receive from any source, the op that has the rank that sent.
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

    def asked(self) -> Asked:
        return self

    def _resolved(self) -> Op:
        """What a host waits for that awaits the call."""
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
        """Raises Aborted where an await does."""
        if self._part is None or self._part.broken:
            yield from unbroken(self._communicator, self._visit)

    def _see(self, host: Host) -> None:
        """Untimed, a host asks that does not know: from now on the end may be seen."""
        if self._seen is None:
            machine = host.machine
            seen = self._seen = host.op(visit_label(*self._visit, "sees the end of"))  # it happens to the host
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
                    self._end = waiting.op  # nothing of it is left to draw
            yield from self._unbroken()
            return self._known

        return outcome

    def _ends(self, host: Host, at: tuple[str, int], timeout_ns: int) -> list[Op]:
        """What a wait with a time-out waits for. Where ranks abort or die the end is that of an await, too."""
        machine, last = host.machine, self._last
        if self._end is not None or self._communicator.membership is not None or machine.partial:
            ends = [self._resolved()]
        else:
            ends = [last]
        if isinstance(last, EarlyEnd) and not machine.timed:
            up = machine.alarms.sleeps.clock(host.causes) + timeout_ns
            label = host.label(at, "waits for all at")
            wait = MayWaitInTime(label, last, last.all_came, host, up)
            waits = machine.waits(wait)
            host.causes |= wait.bit
            if waits:
                ends.append(last.all_came)
        return ends


def part_of(communicator: CallsGroup, end: Op) -> Part:
    """What a host waits for that may abort, in place of the end of its part."""
    assert communicator.membership is not None
    return communicator.membership.part(communicator.host, end)


def unbroken(communicator: CallsGroup, visit: Visit) -> Generator[Any, Any, None]:
    """Raises Aborted if this rank has aborted since it made the call. The thread then continues behind that abort."""
    membership = communicator.membership
    if membership is not None and membership.broken_off is not None:
        yield from communicator.host.wait(membership.broken_off)
        raise communicator.error(visit[1])


def over(communicator: CallsGroup, part: Part, visit: Visit) -> Generator[Any, Any, None]:
    """Wait until a part is over. Raises Aborted if it was broken off."""
    yield from communicator.host.wait(part.over)
    if part.broken:
        raise communicator.error(visit[1])


def received(communicator: CallsGroup, end: Op, array: HostArray) -> Generator[Any, Any, Received]:
    """What a receive from any source gives. The rank that sent may be lost with it."""
    host = communicator.host
    source: int = yield from host.wait(end)
    if host.machine.partial:
        name = communicator.group.spec.name
        yield from host.wait(served(host, name, (source,), end, on_device=False))
    return Received(source, array)
