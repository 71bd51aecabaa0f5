"""Communicators in untimed mode: each member's part of a collective or transfer is a separate op.

A member *arrives* at the collective, on its host or at the head of its stream. Then its part ends in one of two ways:

* *early*: when all members have arrived from which it receives elements (`dpsim.contract.rules.wait_set`). The contract
  requires no more than that.
* *with all*: when all members have arrived. This happens if it receives elements from all members, or if the strategy
  draws it (`dpsim.sim.hosts.early_ends`).

All parts of one collective that wait for all members share one op, `all_arrived`. So if a rank dies, either all of
these parts end or none. On a device communicator, each member has a further op behind `all_arrived`, because a stream
needs a marked op of this rank at this point. A host learns only of its part and needs no such op. A collective that a
dead rank began on its host continues without it. If the kill is `partial`, one more op per peer says that this peer was
served (`Group.served`).

Another member may receive a member's elements before all members have arrived. If so, the simulation copies the
elements at the arrival. So the program may reuse the memory as soon as this member's part ends. If a member waits for
all, the simulation reads its memory when all have arrived.

A transfer is a collective of two members. The sender receives nothing, so its part may end early; the receiver waits
for both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache

import numpy as np

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives import role
from dpsim.contract.dtypes import NUMPY
from dpsim.contract.events import GIVES, REACHES, numbered_label, own_label, transfer_label
from dpsim.contract.rules.wait_set import awaited
from dpsim.contract.schedule import Footprint
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.collectives.any_source import Comes
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.results import Results
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import EarlyEnds
from dpsim.sim.hosts.host import Host


class Meeting:
    """A collective or transfer under way. `indices`: the position of each member. `together`: the members whose parts
    end with all. `looked_for`: a receive from any source waits for the sender, and perhaps neither side has arrived.
    """

    __slots__ = ("all_arrived", "arrivals", "brought", "indices", "label", "looked_for", "members", "together")

    def __init__(self, label: str, members: tuple[int, ...], indices: Mapping[int, int], device: bool) -> None:
        self.label = label
        self.members = members
        self.indices = indices
        self.brought: dict[int, Contribution] = {}
        self.together: list[int] = []
        self.looked_for = False
        self.arrivals = {rank: Op("", 0, None, None, rank if device else None) for rank in members}
        self.all_arrived = Op(label)

    def kept(self, members: Collection[int], rank: int) -> Footprint:
        """The memory of these members that the simulation reads when others receive their elements."""
        others = [self.brought[member].touches for member in members if member != rank]
        return tuple([use for touches in others for use in touches if use[1] == "r"])


class EarlyEnd(Op):
    """The op that ends a part that need not wait for all members."""

    __slots__ = ("all_arrived",)

    all_arrived: Op


class PartedGroup(Group):
    """A communicator whose members arrive and end separately."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine) -> None:
        super().__init__(spec, machine)
        self._open: dict[int, Meeting] = {}
        self._moving: dict[tuple[int, int, int], Meeting] = {}
        self._counts: defaultdict[tuple[int, int, str], int] = defaultdict(int)
        self._lines = {rank: EarlyEnds(machine, rank) for rank in spec.ranks if self.device}

    def join(self, host: Host, own: Contribution) -> Op:
        rank, issue = host.rank, own.issue
        if issue.root is not None and issue.root not in self._indices:
            raise self.no_root(issue)
        seq = self._next_seq[rank]
        self._next_seq[rank] = seq + 1
        meeting = self._open.get(seq)
        if meeting is None:
            meeting = self._open[seq] = self._begin(numbered_label(self.spec.name, seq), self.spec.ranks, self._indices)
        end = self._take_part(host, own, meeting, self.last.get(rank))
        if self.device:
            self.last[rank] = end
        if len(meeting.brought) == self._size:
            del self._open[seq]
        return end

    def move(self, host: Comes, own: Contribution, after: Op | None = None) -> Op:
        rank, peer, way = host.rank, own.issue.peer, own.issue.op
        assert peer is not None
        pair = (rank, peer) if way == "send" else (peer, rank)
        number = self._counts[(*pair, way)]
        self._counts[(*pair, way)] = number + 1
        meeting = self._moving.pop((*pair, number), None)
        if meeting is None:
            label = numbered_label(transfer_label(self.spec.name, *pair), number)
            meeting = self._moving[(*pair, number)] = self._begin(label, pair, {pair[0]: 0, pair[1]: 1})
        elif meeting.looked_for and not meeting.brought:
            self._moving[(*pair, number)] = meeting
        return self._take_part(host, own, meeting, after)

    def coming(self, sender: int, receiver: int) -> Op:
        pair = sender, receiver
        number = self._counts[(*pair, "recv")]
        meeting = self._moving.get((*pair, number))
        if meeting is None:
            label = numbered_label(transfer_label(self.spec.name, *pair), number)
            meeting = self._moving[(*pair, number)] = self._begin(label, pair, {sender: 0, receiver: 1})
            meeting.looked_for = True
        return meeting.arrivals[sender]

    def ended(self, host: Host, end: Op) -> Op:
        """Host domain: returns the op for which a host waits. The strategy draws an early end now."""
        if not isinstance(end, EarlyEnd):
            return end
        waits, bit = host.line.next(end.label, end, end.all_arrived, host.causes)
        host.causes |= bit
        return end.all_arrived if waits else end

    # ---- inside

    def _begin(self, label: str, members: tuple[int, ...], indices: Mapping[int, int]) -> Meeting:
        meeting = Meeting(label, members, indices, self.device)
        if self.device:
            self._unfired[meeting.all_arrived] = members
        return meeting

    def _take_part(self, host: Comes, own: Contribution, meeting: Meeting, after: Op | None) -> Op:
        machine, rank = self.machine, host.rank
        meeting.brought[rank] = own
        arrival, wanted = meeting.arrivals[rank], _wanted(own.issue, rank, meeting.members)
        host.before(arrival)
        if after is not None:
            machine.edge(after, arrival)
        machine.edges(own.before, arrival)
        own.arrival = arrival
        last = len(meeting.brought) == len(meeting.members)  # a receive may arrive while this arrival fires
        end = self._with_all(rank, meeting) if wanted is None else self._early(rank, own, meeting, wanted)
        if machine.aborting and self.device:
            arrival.label = arrival.label or own_label(rank, f"{REACHES} {meeting.label}")
            arrival.footprint = (*arrival.touches(), (("aborts", self.spec.name, rank), "r"), *self._lives_of([rank]))
        if arrival.pending > 1 or arrival.effect or arrival.footprint or arrival.after or arrival.life in machine.dead:
            machine.submit(arrival)
        else:  # the arrival fires at once and has no effect
            arrival.pending = arrival.at = 0
        if last:
            self._all_arrived(meeting)
        return end

    def _early(self, rank: int, own: Contribution, meeting: Meeting, wanted: Collection[int]) -> Op:
        """A device part draws now whether it waits for all, and a host part when the host awaits it."""
        machine, arrival, end = self.machine, meeting.arrivals[rank], EarlyEnd(own_label(rank, meeting.label))
        end.all_arrived = meeting.all_arrived
        if self.device:
            arrival.effect = own.keep
            reads = tuple([use for use in own.touches if use[1] == "r"]) if own.touches else ()
            if reads:
                arrival.label = own_label(rank, f"{GIVES} {meeting.label}")
                arrival.footprint = reads + self._lives_of([rank])
                own.touches = tuple([use for use in own.touches if use[1] != "r"])
            waits, end.causes = self._lines[rank].next(end.label, end, meeting.all_arrived, arrival.causes)
            if waits:
                return self._with_all(rank, meeting, end)
            end.life = rank
            machine.mark(end)
            self._unfired[end] = wanted
            uses = own.touches + self._lives_of(wanted)
            end.footprint = uses or None
            if machine.memory and own.touches:
                end.footprint = lambda: uses + meeting.kept(wanted, rank)
        end.effect, end.args = self._leave, (rank, meeting, wanted, end)
        for member in meeting.members:
            if member in wanted:
                machine.edge(meeting.arrivals[member], end)
        machine.submit(end)
        return end

    def _with_all(self, rank: int, meeting: Meeting, end: Op | None = None) -> Op:
        meeting.together.append(rank)
        if not self.device:
            return meeting.all_arrived
        end = end or Op("")
        end.life = rank
        self.machine.mark(end)
        self.machine.edge(meeting.all_arrived, end)
        self.machine.submit(end)
        return end

    def _all_arrived(self, meeting: Meeting) -> None:
        op, together = meeting.all_arrived, meeting.together
        op.effect, op.args = self._complete, (meeting,)
        if self.device:
            op.footprint = sum([meeting.brought[member].touches for member in together], ()) + self._lives or None
        self.machine.edges([*meeting.arrivals.values()], op)
        self.machine.submit(op)

    def _complete(self, meeting: Meeting) -> None:
        """Ends all parts that end with all: reads all inputs, then writes all outputs."""
        self._unfired.pop(meeting.all_arrived, None)
        together, brought = meeting.together, meeting.brought
        if not together:
            return
        results = Results(meeting.indices, brought, self.machine)
        whole = len(together) == len(brought)
        for rank, result in zip(together, results.all() if whole else map(results.of, together), strict=True):
            if result is not None:
                brought[rank].receive(result)

    def _leave(self, rank: int, meeting: Meeting, wanted: Collection[int], end: Op) -> None:
        self._unfired.pop(end, None)
        own = meeting.brought[rank]
        if own.issue.op != "send" and role(own.issue.op, own.issue.root, rank).gets:
            nothing = _nothing(own.issue)
            brought = {one: meeting.brought[one] if one in wanted else nothing for one in meeting.members}
            result = Results(meeting.indices, brought, self.machine).of(rank)
            if result is not None:
                own.receive(result)


@lru_cache(4096)
def _wanted(issue: Issue, rank: int, members: tuple[int, ...]) -> frozenset[int] | None:
    wanted = frozenset({*awaited(issue.call, rank, members), rank})
    return wanted if len(wanted) < len(members) else None


def _nothing(issue: Issue) -> Contribution:
    empty = np.empty(0, NUMPY[issue.dtype])
    return Contribution(issue._replace(count=0, sizes=(), altered=False), empty, empty, (), 0)
