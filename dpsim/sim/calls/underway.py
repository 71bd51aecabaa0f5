"""Collectives and transfers of a host that are under way: what awaits them, and what asks whether they are over.

    underway = Underway((communicator, last, issue, (host.word, site, ordinal), wanted))
    yield from underway()                       # stands until `last`, and gives `wanted`
    asked = underway.asked()                    # from now on it can be asked, and awaited later
    yield from asked.query()()                  # True or False

An answer of no is a choice, as that of an event is. The op by which the host sees the end is made when it first asks,
and conflicts with the look. A host that has seen the end knows it from then on. So does one at which a time-out of a
get has passed since it first asked, as nothing else could happen then.

What need not wait for all members draws whether it does where the host can see it: at the await, or at the first look.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeAlias

from dpsim.backend.hosts.work import Outcome
from dpsim.contract.interface import Aborted, HostArray, Received
from dpsim.contract.schedule import visit_label
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.membership import Membership, Part
from dpsim.sim.collectives.served import served
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host

Visit: TypeAlias = tuple[str, str, int]
"""Host thread as labels name it, site and ordinal."""


class CallsGroup(Protocol):
    """The communicator of a call."""

    host: Host
    group: Group
    membership: Membership | None

    def error(self, site: str) -> Aborted:
        """What an await raises that was broken off."""


class Underway(tuple[Any, ...]):
    """A call: communicator, the op that ends it, its issue and its visit, and the array that has the result then. A
    tuple, since most calls are awaited and never asked.
    """

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, last, _, _, wanted = self
        host = communicator.host
        machine = host.machine
        if communicator.membership is not None or machine.partial:
            return self._while_others_leave()
        end = last if machine.timed else communicator.group.ended(host, last)
        waits: Generator[Any, Any, Any] = host.wait(end, wanted)
        return waits

    def _while_others_leave(self) -> Generator[Any, Any, Any]:
        """Where ranks abort, or a death may take the others with it."""
        communicator, _, _, visit, wanted = self
        if communicator.membership is None:
            return (yield from communicator.host.wait(served_of(self), wanted))
        yield from unbroken(communicator, visit)
        yield from over(communicator, part_of(communicator, served_of(self)), visit)
        return wanted

    def asked(self) -> Asked:
        communicator, _, _, visit, wanted = self
        return Asked(communicator, served_of(self), visit, wanted)


class UnderwayFromAny(tuple[Any, ...]):
    """A receive from any source: communicator, the op that ends it, the visit, and the array."""

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Received]:
        communicator, last, visit, array = self
        if communicator.membership is not None:
            yield from unbroken(communicator, visit)
            yield from over(communicator, part_of(communicator, last), visit)
        return (yield from received(communicator, last, array))

    def asked(self) -> Asked:
        communicator, last, visit, array = self
        return Asked(communicator, last, visit, array, from_any=last)


class Skipped:
    """A call that a fault left out: it is over."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: HostArray) -> None:
        self._wanted = wanted

    def __call__(self) -> Generator[Any, Any, HostArray]:
        return self._wanted
        yield

    def asked(self) -> Skipped:
        return self

    def query(self) -> Outcome:
        def outcome() -> Generator[Any, Any, bool]:
            return True
            yield

        return outcome


class Asked:
    """A call that its host asks for. `end`: the op that ends it; from any source, `from_any` has the rank that sent."""

    __slots__ = ("_communicator", "_end", "_from_any", "_known", "_part", "_point", "_seen", "_visit", "_wanted")

    def __init__(
        self, communicator: CallsGroup, end: Op, visit: Visit, wanted: HostArray, from_any: Op | None = None
    ) -> None:
        self._communicator, self._visit, self._wanted, self._from_any = communicator, visit, wanted, from_any
        membership, machine = communicator.membership, communicator.host.machine
        self._part = None if membership is None or membership.aborted else part_of(communicator, end)
        self._end = end if self._part is None else self._part.over
        self._seen: Op | None = None
        self._known = False
        self._point = Op("")
        if not machine.timed:
            self._point.effect, self._point.args = machine.alarms.passed, (self._point,)
            machine.mark(self._point)
            machine.edge(self._end, self._point)
            machine.submit(self._point)

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator = self._communicator
        if self._part is not None:
            yield from over(communicator, self._part, self._visit)
        else:
            yield from unbroken(communicator, self._visit)
        if self._from_any is not None:
            return (yield from received(communicator, self._from_any, self._wanted))
        return (yield from communicator.host.wait(self._end, self._wanted))

    def asked(self) -> Asked:
        return self

    def query(self) -> Outcome:
        host, machine = self._communicator.host, self._communicator.host.machine
        op = host.op(host.address(), 0, self._is_seen, host=True)

        def outcome() -> Generator[Any, Any, bool]:
            if host.gate is not None:
                yield from host.get_through()
            self._known = self._known or bool(host.seen_marks & self._point.own_mark)
            if not (machine.timed or self._known):
                self._see(host)
                op.footprint = (*op.touches(), (("over", *self._visit), "r"))
            machine.submit(op)
            seen = yield from (host.in_vain(op) if machine.timed and not op.value else host.wait(op))
            self._known = self._known or seen
            if self._known:
                host.seen_marks |= self._point.seen_marks
                host.causes |= self._end.causes
            if self._part is None or self._part.broken:
                yield from unbroken(self._communicator, self._visit)
            return self._known

        return outcome

    def _see(self, host: Host) -> None:
        """Untimed, a host asks that does not know: from now on the end may be seen."""
        if self._seen is None:
            machine = host.machine
            seen = self._seen = host.op(visit_label(*self._visit, "sees the end of"))  # it happens to the host
            seen.footprint = (*seen.touches(), (("over", *self._visit), "w"))
            machine.edge(self._end, seen)
            machine.submit(seen)

    def _is_seen(self) -> bool:
        if self._communicator.host.machine.timed:
            return self._end.at >= 0
        return self._seen is not None and self._seen.at >= 0


def served_of(call: Underway) -> Op:
    """What a host waits for that awaits the end of a call, which may be lost with one of the others."""
    communicator, last, issue, _, _ = call
    host, group = communicator.host, communicator.group
    end: Op = last if host.machine.timed else group.ended(host, last)
    if not host.machine.partial:
        return end
    others = group.spec.ranks if issue.peer is None else (issue.peer,)
    return served(host, group.spec.name, others, end, on_device=False)


def part_of(communicator: CallsGroup, end: Op) -> Part:
    """What a host waits for that may abort, in place of the end of its part."""
    assert communicator.membership is not None
    return communicator.membership.part(communicator.host, end)


def unbroken(communicator: CallsGroup, visit: Visit) -> Generator[Any, Any, None]:
    """Raises Aborted where this rank has aborted since the call was made. Its thread comes behind that abort."""
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
