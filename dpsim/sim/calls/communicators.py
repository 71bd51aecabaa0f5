"""The communicators of one rank: they put the contract's collectives and transfers on the groups that all members
share.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from dpsim.backend.calls.communicators import JournaledDeviceCommunicator
from dpsim.backend.hosts.host_communicators import JournaledHostCommunicator
from dpsim.backend.hosts.works import CallUnderway
from dpsim.backend.journal.issue import Issue, plan
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.contract.collectives import role
from dpsim.contract.events import ENDS_A_GROUP, IS_LATE_FOR, LEAVES, STARTS, numbered_label
from dpsim.contract.interface import Buffer, HostArray, Stream
from dpsim.contract.ops import DType
from dpsim.contract.rules.floats import COMPARES, FLOATS
from dpsim.contract.rules.wait_set import is_idle
from dpsim.sim.calls.streams import SimStream
from dpsim.sim.calls.underway import Skipped, Underway, UnderwayFromAny
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.collectives.residency import Slots
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.memory.buffers import flat_of, touched


class SimHostCommunicator(JournaledHostCommunicator):
    """Host collectives and transfers. A call ends for each member's host separately."""

    __slots__ = ("group", "host", "membership")

    def __init__(self, host: Host, group: Group, membership: Membership | None = None) -> None:
        super().__init__(host.journal, group.spec)
        self.host = host
        self.group = group
        self.membership = membership

    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> CallUnderway:
        host, machine = self.host, self.host.machine
        count = math.prod(shape)
        source = _flat_copy(array)
        result = source
        last: Op | None = None
        for issue in issues:
            host.issue()
            late = self._late(issue.delay_ns) if issue.delay_ns else host.issued
            if last is not None:  # a call that a fault repeats has separate memory: both calls are under way at once
                source = _flat_copy(array)
            result = source.copy() if source.size == count else _as_far_as_it_fits(source, count)
            own = Contribution(issue, result, source, (late,) if late is not None else (), machine.env._now)
            if issue.reduce in COMPARES and issue.dtype in FLOATS:
                own.at = host.journal, self.name, host.journal.site, host.journal.ordinal
            last = (self.group.join if issue.peer is None else self.group.move)(host, own)
        if last is None:
            result = _as_far_as_it_fits(source, count)
        wanted = result if result.shape == shape else result.reshape(shape)
        visit = host.word, host.journal.site, host.journal.ordinal
        if last is None:
            return Skipped(wanted)
        end = self._part(last, issues[-1]) if machine.partial or self.membership is not None else last
        return Underway((self, last, end, issues[-1], visit, wanted))

    def _part(self, last: Op, issue: Issue) -> Op:
        """Returns the op that ends this rank's part in a call that `last` ends: members may die or leave before."""
        host, group, end = self.host, self.group, last
        if host.machine.partial:
            others = group.spec.ranks if issue.peer is None else (issue.peer,)
            end = group.served(host, others, end)
        return end if self.membership is None else self.membership.served(host, end, issue)

    def _receive_any(self, array: HostArray, dtype: DType, delay_ns: int) -> CallUnderway:
        host, group = self.host, self.group
        site, ordinal = host.journal.site, host.journal.ordinal
        host.issue()
        late = (self._late(delay_ns),) if delay_ns else ()
        flat = array.reshape(-1)
        issue = plan("recv", flat.size, dtype)
        end = group.receive_any(host, Contribution(issue, flat, flat, late, host.machine.env._now))
        return UnderwayFromAny((self, end, end, issue, (host.word, site, ordinal), array))

    def _late(self, ns: int) -> Op:
        op = self.host.op(self.host.address(IS_LATE_FOR), ns, host=True)
        self.host.machine.alarms.sleep(op, ns)
        self.host.machine.submit(op)
        return op

    def _abort(self) -> None:
        if self.membership is not None:
            self.membership.abort(self.host)

    def unless_aborted(self, site: str) -> Generator[Any, Any, None]:
        if self.membership is not None and self.membership.broken_off is not None:
            yield from self.host.wait(self.membership.broken_off)  # what the thread does now is behind the abort
            raise self.error(site)


def _flat_copy(array: HostArray) -> HostArray:
    return np.array(array) if array.ndim == 1 else np.array(array).reshape(-1)


def _as_far_as_it_fits(source: HostArray, count: int) -> HostArray:
    result = np.zeros(count, source.dtype)
    size = min(count, source.size)
    result[:size] = source[:size]
    return result


class SimDeviceCommunicator(JournaledDeviceCommunicator):
    """Device collectives and transfers. A call occupies its stream until it ends for this rank."""

    __slots__ = ("_before", "_heads", "_moves", "_parts", "_started", "group", "host", "membership", "slots")

    def __init__(
        self, host: Host, group: Group, slots: Slots | None = None, membership: Membership | None = None
    ) -> None:
        super().__init__(host.journal, group.spec)
        self.host = host
        self.group = group
        self.slots = slots
        self.membership = membership
        self._parts = 0
        self._started: Op | None = None
        self._moves: list[Op] | None = None
        self._before: Op | None = None
        self._heads: Sequence[Op] = ()

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        on = stream if type(stream) is SimStream else of_this_backend(stream, SimStream)
        if self.aborted:  # only a graph replay reaches this line after an abort
            raise self.error(self.name)
        host, machine = self.host, self.host.machine
        if self.group.made is not None:
            self.group.made.meet(host, self.ranks)
        for issue in issues:
            if issue.delay_ns:
                on._spin(issue.delay_ns)
            if (issue.sizes or not issue.count) and is_idle(issue.call):
                self._pass(Contribution(issue, flat_of(output), flat_of(source), (), machine.env._now))
                continue
            if on.chain.queue is not None:
                on.chain.make_room(host)
            heads = self._start(on.chain.heads(host))
            own = Contribution(issue, flat_of(output), flat_of(source), heads, machine.env._now)
            if issue.dtype in FLOATS and issue.reduce in COMPARES:
                own.at = host.journal, self.name, host.journal.site, host.journal.ordinal
            if machine.memory:
                gives, gets = role(issue.op, issue.root, host.rank)
                own.touches = touched([source] if gives else [], [output] if gets else [])
            end = self.group.join(host, own)
            if machine.partial:
                end = self.group.last[host.rank] = self.group.served(host, self.ranks, end)
            if self.membership is not None:
                end = self.group.last[host.rank] = self.membership.part(host, end, own).over
            on.chain.tail = self._end(end)
            if on.chain.queue is not None:
                on.chain.queue.append(on.chain.tail)

    def _pass(self, own: Contribution) -> None:
        """A collective that moves nothing for this rank takes no place and no turn; NCCL drops it on the host, too."""
        last, rank = self.group.last, self.host.rank
        before = last.pop(rank, None)
        self.group.join(self.host, own)
        del last[rank]
        if before is not None:
            last[rank] = before

    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        on = stream if type(stream) is SimStream else of_this_backend(stream, SimStream)
        if self.aborted:
            raise self.error(self.name)
        host, group, chain = self.host, self.group, on.chain
        for issue in issues:
            if group.made is not None:
                group.made.meet(host, self._makes(issue))
            if issue.delay_ns:
                on._spin(issue.delay_ns)
            if chain.queue is not None and not self._moves:  # a coalesced group takes one place
                chain.make_room(host)
            array = flat_of(buffer)
            if not self._moves:
                self._heads = self._start(chain.heads(host))
            own = Contribution(issue, array, array, self._heads, host.machine.env._now)
            if host.machine.memory:
                own.touches = touched([buffer], []) if issue.op == "send" else touched([], [buffer])
            end = group.move(host, own, group.last.get(host.rank) if self._moves is None else self._before)
            if host.machine.partial and issue.peer is not None:
                end = group.served(host, (issue.peer,), end)
            if self.membership is not None:
                end = self.membership.part(host, end, own).over
            if self._moves is None:
                chain.tail = self._end(end)
                group.last[host.rank] = chain.tail
                if chain.queue is not None:
                    chain.queue.append(chain.tail)
            else:
                self._moves.append(end)

    def _abort(self) -> None:
        if self.membership is not None:
            self.membership.abort(self.host)

    def _open(self, stream: Stream) -> None:
        self._moves, self._before = [], self.group.last.get(self.host.rank)

    def _close(self, stream: Stream) -> None:
        on, moves, host = of_this_backend(stream, SimStream), self._moves or [], self.host
        self._moves = None
        end = host.op(host.address(ENDS_A_GROUP))
        host.machine.edges(moves, end)
        self.group.last[host.rank] = end
        host.machine.mark(end)
        on.chain.append(end)
        if moves:
            on.chain.tail = self._end(end)
        if on.chain.queue is not None and moves:
            on.chain.queue.append(end)

    def _makes(self, issue: Issue) -> tuple[int, ...]:
        """The members that have to meet before a transfer, in worlds with communicators made at first use."""
        pair = self.host.rank, self.host.rank if issue.peer is None else issue.peer
        return self.ranks if issue.group is not None or issue.peer is None else (min(pair), max(pair))

    def unmade(self, issue: Issue) -> bool:
        made = self.group.made
        return made is not None and not made.knows(self.host.rank, self._makes(issue))

    # ---- worlds with finite residency

    def _start(self, heads: Sequence[Op]) -> Sequence[Op]:
        """With finite residency, a part starts when it has taken its slots. A coalesced group starts once."""
        if self.slots is None:
            return heads
        host = self.host
        last = self.group.last.get(host.rank)
        self._started = self.slots.start(host, self._label(STARTS), heads, last, self.places)
        return (self._started,)

    def _end(self, end: Op) -> Op:
        """With finite residency, the stream and the communicator continue when the slots are given back."""
        if self.slots is None or self._started is None:
            return end
        end = self.group.last[self.host.rank] = self.slots.leave(self.host, self._label(LEAVES), self._started, end)
        self._parts += 1
        return end

    def _label(self, what: str) -> str:
        visible = self.host.machine.visible
        return numbered_label(f"{what} {self.group.spec.name}", self._parts, self.host.word) if visible else ""
