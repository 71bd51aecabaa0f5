"""Collectives and transfers that a host has started: what the program awaits, queries, or awaits with a time-out.

    underway = Underway((communicator, last, end, issue, (host.word, site, ordinal), wanted))
    yield from underway()                       # waits for the part, and returns `wanted`
    asked = underway.queried()                  # an object that can be queried first, and awaited later
    yield from asked.query()()                  # True or False
    yield from asked.within(5_000_000)()        # True, or False where the time-out passed

The rank's part in the call exists from the call on: `end` fires when the part ends, whether or not the host looks. It
is the op `last` of the communicator, or an op behind it. There is an op behind it if members may leave
(`dpsim.sim.collectives.membership`) or die (`Group.served`) before they have served this rank.

A collective that need not wait for all members may wait for them all the same; the strategy draws which. It draws when
the host can first see the difference: at the await, or at the first query.

In untimed mode, the schedule decides whether a query returns True or False, as for an event. At the host's first query
of a call, the simulation creates an op by which the host sees the end. This op and each query conflict, so a search
tries both orders. A host that has seen the end, or learned of a time-out that passed after it, gets True from then on.
For a time-out passes only when no other op can happen (`dpsim.sim.graph.alarms.Alarms.behind`).

Each wait with a time-out has a separate draw, since the rank continues after a time-out. The variant "waits for all"
shows something new in two cases. Either the last member never arrives, or it arrives after a sleep that is longer than
the time-out.

No function here asks whether this rank has aborted the communicator before the call: `dpsim.backend.hosts.works` does.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeAlias

from dpsim.backend.hosts.work import Outcome
from dpsim.contract.events import SEES_THE_END, WAITS_FOR_ALL, visit_label
from dpsim.contract.interface import Aborted, HostArray, Received
from dpsim.contract.ops import MAIN
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.membership import Membership, Part
from dpsim.sim.collectives.parts import EarlyEnd
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import MayWait
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
        """Returns the exception that an await raises if an abort broke it off."""


class Underway(tuple[Any, ...]):
    """A call: communicator, the op of the communicator that ends it, and the op that ends the rank's part. Then its
    issue, its visit (thread, site, ordinal), and the result array. It is a tuple for speed, since a program awaits most
    calls and queries few.
    """

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, last, part, issue, _, wanted = self
        host = communicator.host
        if communicator.membership is not None or part is not last:
            return self.wait(self.drawn())
        end = last if host.machine.timed else communicator.group.ended(host, last)
        if isinstance(end, EarlyEnd) and (issue.op == "send" or (issue.op == "broadcast" and issue.root == host.rank)):
            return self._perhaps_early(end)
        waits: Generator[Any, Any, Any] = host.wait(end, wanted)
        return waits

    def drawn(self) -> Op:
        """Draws how the call ends, and returns the op for which an awaiting host waits."""
        communicator, last, part = self[:3]
        host = communicator.host
        end: Op = last if host.machine.timed else communicator.group.ended(host, last)
        return part if end is last else behind(host.machine, [part, end])

    def wait(self, end: Op) -> Generator[Any, Any, Any]:
        """Waits for the op that `drawn` has returned; returns the result."""
        yield from until(self[0], end, self[4][1])
        return self[5]

    def _perhaps_early(self, end: EarlyEnd) -> Generator[Any, Any, Any]:
        communicator, _, _, _, (word, site, ordinal), wanted = self
        host = communicator.host
        result = yield from host.wait(end, wanted)
        if end.all_arrived.at < 0:
            host.machine.early.append((host.rank, word.partition("/")[2] or MAIN, site, ordinal))
        return result

    def queried(self) -> QueriedCall:
        return QueriedCall(self)


class UnderwayFromAny(Underway):
    """A receive from any source. The value of its op `last` is the sender's rank."""

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Received]:
        return self.wait(self.drawn())

    def wait(self, end: Op) -> Generator[Any, Any, Received]:
        array: HostArray = yield from super().wait(end)
        return Received(self[1].value, array)


class Skipped:
    """A call that a fault left out: it ends at once."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: HostArray) -> None:
        self._wanted = wanted

    def __call__(self) -> Generator[Any, Any, HostArray]:
        return self._wanted
        yield

    def queried(self) -> Skipped:
        return self

    def query(self) -> Outcome:
        def outcome() -> Generator[Any, Any, bool]:
            return True
            yield

        return outcome

    def within(self, timeout_ns: int) -> Outcome:
        return self.query()


class QueriedCall:
    """A call that its host queries, or awaits with a time-out. `_end`: the op for which it waits, after the draw."""

    __slots__ = ("_call", "_communicator", "_end", "_known", "_seen", "_visit")

    def __init__(self, call: Underway) -> None:
        self._call = call
        self._communicator: CallsGroup = call[0]
        self._visit: Visit = call[4]
        self._end: Op | None = None
        self._seen: Op | None = None
        self._known = False

    def __call__(self) -> Generator[Any, Any, Any]:
        return self._call.wait(self._resolved())

    def queried(self) -> QueriedCall:
        return self

    def _resolved(self) -> Op:
        if self._end is None:
            self._end = self._call.drawn()
        return self._end

    # ---- queries

    def query(self) -> Outcome:
        host, machine = self._communicator.host, self._communicator.host.machine
        op = host.op(host.address(), 0, self._is_seen, host=True)

        def outcome() -> Generator[Any, Any, bool]:
            if host.gate is not None:
                yield from host.get_through()
            end = self._resolved()
            self._knows(host, end)
            if not (machine.timed or self._known):
                self._see(host, end)
                op.footprint = (*op.touches(), (("over", *self._visit), "r"))
            machine.submit(op)
            seen = yield from (host.in_vain(op) if machine.timed and not op.value else host.wait(op))
            self._known = self._known or seen
            if self._known:
                host.seen_marks |= end.seen_marks
                host.causes |= end.causes
            return self._known

        return outcome

    def _knows(self, host: Host, end: Op) -> None:
        self._known = self._known or host.machine.alarms.behind(end, host.seen_marks)

    def _see(self, host: Host, end: Op) -> None:
        """Creates, once, the op by which the host sees the end: untimed, the schedule decides when."""
        if self._seen is None:
            machine = host.machine
            seen = self._seen = host.op(visit_label(*self._visit, SEES_THE_END))
            seen.footprint = (*seen.touches(), (("over", *self._visit), "w"))
            machine.edge(end, seen)
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
            host.machine.alarms.awaited.add(timeout_ns)  # also if the call is over: a draw before may have decided that
            if not self._known:
                end = self._drawn_in_time(host, at, timeout_ns)
                part = breakable(self._communicator, end)
                waiting = Waiting(host.machine, host, timeout_ns, "waits for", at)
                waiting.look(lambda: True, (), end if part is None else part.over)
                yield from host.wait(waiting.op)
                if part is not None and part.broken:
                    raise self._communicator.error(self._visit[1])
                self._known = bool(waiting.result)
                if self._known and self._end is None:
                    self._end = waiting.op  # the end of this wait is the end of the call: no draw remains
            return self._known

        return outcome

    def _drawn_in_time(self, host: Host, at: tuple[str, int], timeout_ns: int) -> Op:
        machine, last = host.machine, self._call[1]
        if self._end is not None:
            return self._end
        end: Op = self._call[2]
        if isinstance(last, EarlyEnd) and not machine.timed:
            up = machine.alarms.sleeps.clock(host.causes) + timeout_ns
            label = host.label(at, WAITS_FOR_ALL)
            wait = MayWait(label, last, last.all_arrived, ~host.rank, machine, host.causes, up)
            waits = machine.waits(wait)
            host.causes |= wait.bit
            if waits:
                self._end = end = behind(machine, [end, last.all_arrived])
        return end


def behind(machine: Machine, ops: Sequence[Op]) -> Op:
    """Returns an op that fires when all of these have fired."""
    after = Op("")
    machine.edges(ops, after)
    machine.submit(after)
    return after


def breakable(communicator: CallsGroup, end: Op) -> Part | None:
    """For a thread that waits for `end` while another thread of its rank may abort: the part that replaces `end`."""
    membership, host = communicator.membership, communicator.host
    return None if membership is None or not host.turns else membership.part(host, end)


def until(communicator: CallsGroup, end: Op, site: str) -> Generator[Any, Any, None]:
    """Waits for `end`. Raises `Aborted` if another thread of the rank aborts the communicator before."""
    part = breakable(communicator, end)
    yield from communicator.host.wait(end if part is None else part.over)
    if part is not None and part.broken:
        raise communicator.error(site)
