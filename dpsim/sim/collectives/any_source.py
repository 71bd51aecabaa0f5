"""Receives from any source: the schedule chooses the sender whose message each receive takes.

A receive from any source starts to look for a message when all earlier receives of its rank have taken theirs. Then
each other member that sends its next message *offers* it. The receive takes the first offer that the schedule picks. So
it may take a late message although another member sent one long before, which is still under way. Messages of one
member arrive in their order.

    end = AnySource(group).receive(host, own)       # `own`: the memory that receives the message
    source = yield from host.wait(end)

All offers to one receive conflict. An offer that arrives after the receive has taken another message never becomes a
step of the run. The strategy hears of it (`Strategy.lost`), and also tries the order in which the late offer is first.

Prior art: the wildcard receives of ISP and DAMPI. They also try a receive from any source once for each sender that
could match.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from dpsim.contract.events import TAKES_FROM, numbered_label
from dpsim.contract.schedule import Footprint
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op


class Comes(Protocol):
    """The rank that makes one side of a transfer: a host, or a receive from any source that has picked its sender."""

    rank: int
    chained: bool

    def before(self, op: Op) -> None:
        """Orders an op after all that the rank did before the call."""


class Matches(Protocol):
    """A communicator that matches sends and receives."""

    spec: CommunicatorSpec
    machine: Machine
    memberships: dict[int, Any]

    def coming(self, sender: int, receiver: int) -> Op:
        """Returns the op by which the sender arrives with its next message that no receive has taken."""

    def move(self, host: Comes, own: Contribution, after: Op | None = None) -> Op:
        """Adds one side of a transfer, and returns the op that ends the transfer for this rank."""


class Taking:
    """A rank whose receive has taken a message: what follows the receive comes after the op `take`."""

    chained = True

    def __init__(self, rank: int, machine: Machine, take: Op) -> None:
        self.rank = rank
        self._machine = machine
        self._take = take

    def before(self, op: Op) -> None:
        self._machine.edge(self._take, op)


class AnyReceive:
    """`came`: the op of the call. `end`: the op that ends it. `takes`: the offers that the schedule can pick now."""

    __slots__ = ("arrived", "end", "number", "own", "rank", "taken", "takes")

    def __init__(self, rank: int, number: int, own: Contribution) -> None:
        self.rank = rank
        self.number = number
        self.own = own
        self.arrived, self.end = Op(""), Op("")
        self.taken = False
        self.takes: list[Op] = []


class AnySource:
    """All receives from any source on one communicator."""

    def __init__(self, group: Matches) -> None:
        self._group = group
        self._machine = group.machine
        self._open: dict[int, deque[AnyReceive]] = {}
        self._numbers: dict[int, int] = {}
        self._offers: dict[Op, None] = {}

    def receive(self, host: Comes, own: Contribution) -> Op:
        """A rank calls a receive. Returns the op that ends it, whose value is the sender's rank."""
        machine, rank = self._machine, host.rank
        number = self._numbers.get(rank, 0)
        self._numbers[rank] = number + 1
        one = AnyReceive(rank, number, own)
        host.before(one.arrived)
        machine.edges(own.before, one.arrived)
        machine.submit(one.arrived)
        waiting = self._open.setdefault(rank, deque())
        waiting.append(one)
        if len(waiting) == 1:
            self._look(one, None)
        return one.end

    def _look(self, one: AnyReceive, after: Op | None) -> None:
        machine, group = self._machine, self._group
        for sender in group.spec.ranks:
            if sender == one.rank:
                continue
            offer = Op("")
            offer.effect, offer.args = self._offer, (one, sender, offer)
            self._offers[offer] = None
            machine.edge(one.arrived, offer)
            machine.edge(after, offer)
            machine.edge(group.coming(sender, one.rank), offer)
            machine.submit(offer)

    def _offer(self, one: AnyReceive, sender: int, offer: Op) -> None:
        machine = self._machine
        del self._offers[offer]
        take = Op(self._label(one, sender), footprint=self._touches(one))
        take.causes, take.seen_marks = offer.causes, offer.seen_marks
        if one.taken:
            if machine.strategy is not None:
                machine.strategy.lost([take])
            return
        take.effect, take.args = self._take, (one, sender, take)
        self._need(take, one.rank, sender)
        one.takes.append(take)
        machine.submit(take)

    def _take(self, one: AnyReceive, sender: int, take: Op) -> None:
        machine, own, waiting = self._machine, one.own, self._open[one.rank]
        one.taken = True
        if one.rank in self._group.memberships:
            for settled in one.takes:
                self._group.memberships[one.rank].settled(settled)
        others = [other for other in one.takes if other is not take]
        one.takes.clear()
        for other in others:
            other.effect, other.args = None, ()
            if other in machine.enabled:  # else its sender has left or died
                machine.enabled.remove(other)
        if others and machine.strategy is not None:
            machine.strategy.lost(others)
        waiting.popleft()
        own.issue = own.issue._replace(peer=sender)
        matched = self._group.move(Taking(one.rank, machine, take), own)
        one.end.effect, one.end.args = _same, (sender,)
        machine.edge(matched, one.end)
        machine.submit(one.end)
        if waiting:
            self._look(waiting[0], take)

    def _need(self, take: Op, rank: int, sender: int) -> None:
        """A receive takes no message of a sender that has left the communicator or died by a partial kill."""
        if sender in self._machine.partial:
            take.footprint, take.life = (*take.touches(), (("life", sender), "r")), ~sender
        membership = self._group.memberships.get(rank)
        if membership is not None:
            membership.need(take, (sender,))

    def _label(self, one: AnyReceive, sender: int) -> str:
        name = self._group.spec.name
        return numbered_label(f"{TAKES_FROM} {sender} in {name}", one.number, one.rank) if self._machine.visible else ""

    def _touches(self, one: AnyReceive) -> Footprint | None:
        """Returns the resource on which offers conflict; None if only one other member can send."""
        if not self._machine.visible or len(self._group.spec.ranks) == 2:
            return None
        return ((("any source", self._group.spec.name, one.rank, one.number), "w"),)

    def forget(self) -> None:
        """Breaks the reference cycles at the end of a run."""
        for offer in self._offers:
            offer.effect, offer.args = None, ()
        for waiting in self._open.values():
            for one in waiting:
                for take in one.takes:
                    take.effect, take.args = None, ()
        self._offers.clear()
        self._open.clear()


def _same(source: int) -> int:
    return source
