"""Communicators in timed mode: a collective is one joint op of all members.

Each member counts its collectives on the communicator, and collectives of all members with the same number form one
joint op. The op starts when the last member arrives, and ends for all members at the same time. The contract allows
other timings as well; untimed mode tries those.

The n-th send from one rank to another matches the n-th receive. A *rendezvous* transfer is one joint op of both sides.
An *eager* send, one of a few bytes, is an op of the sender alone, and the receive comes after it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TypeAlias

from dpsim.backend.journal.issue import Issue
from dpsim.contract.events import numbered_label, transfer_label
from dpsim.contract.ops import DTYPES
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.collectives.any_source import Comes
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.results import Results
from dpsim.sim.graph.costs import Costs
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host

Brought: TypeAlias = dict[int, Contribution]
"""The contributions to a collective, by rank."""


class JointGroup(Group):
    """A communicator whose collectives are joint ops. `waited[rank]`: how long the rank waited, in ns."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine, costs: Costs, waited: list[int]) -> None:
        super().__init__(spec, machine)
        self._waited = waited
        self._cost = costs.on_device if self.device else costs.on_host
        self._open: dict[int, tuple[Op, Brought]] = {}
        self._latest: Op | None = None
        self._moved = False
        """Whether there was any transfer."""
        self._transfer_cost = costs.device_transfer if self.device else costs.host_transfer
        self._eager_bytes = costs.eager_bytes
        self._counts: defaultdict[tuple[int, int, str], int] = defaultdict(int)
        self._sends: defaultdict[tuple[int, int], deque[tuple[Op, Contribution]]] = defaultdict(deque)
        self._receives: defaultdict[tuple[int, int], deque[tuple[Op, Contribution]]] = defaultdict(deque)
        self._coming: dict[tuple[int, int], Op] = {}
        """For (sender, receiver): the op by which a receive from any source waits for the sender."""

    def join(self, host: Host, own: Contribution) -> Op:
        rank, issue, machine = host.rank, own.issue, self.machine
        if issue.root is not None and issue.root not in self._indices:
            raise self.no_root(issue)
        seq = self._next_seq[rank]
        self._next_seq[rank] = seq + 1
        op, brought = self._open.get(seq) or self._begin(seq)
        brought[rank] = own
        if host.chained:
            host.before(op)
        if self.device:
            if self._moved and rank in self.last:
                machine.edge(self.last[rank], op)
            self.last[rank] = op
        if len(brought) == self._size:
            del self._open[seq]
            self._all_joined(op, brought, issue)
        machine.edges(own.before, op)
        machine.submit(op)
        return op

    def _begin(self, seq: int) -> tuple[Op, Brought]:
        machine = self.machine
        op = Op(numbered_label(self.spec.name, seq) if machine.visible else "")
        begun = self._open[seq] = op, {}
        op.pending = self._size
        machine.edge(self._latest, op)
        self._latest = op
        self._unfired[op] = self.spec.ranks
        return begun

    def _all_joined(self, op: Op, brought: Brought, last: Issue) -> None:
        largest = max([max(one.source.size, one.output.size) for one in brought.values()])
        op.cost = self._cost(self._size, largest * DTYPES[last.dtype])
        op.effect, op.args = self._complete, (op, brought)
        if self.machine.visible:
            op.footprint = sum([one.touches for one in brought.values()], ()) + self._lives or None

    def _complete(self, op: Op, brought: Brought) -> None:
        """Reads all inputs before it writes an output."""
        del self._unfired[op]
        waited = self._waited
        start = self.machine.now - op.cost
        results = Results(self._indices, brought, self.machine).all()
        for (rank, own), result in zip(brought.items(), results, strict=True):
            if result is not None:
                own.receive(result)
            joined_at = own.joined
            for before in own.before:
                if before.at > joined_at:
                    joined_at = before.at
            waited[rank] += start - joined_at

    # ---- transfers

    def move(self, host: Comes, own: Contribution, after: Op | None = None) -> Op:
        self._moved = True
        rank, peer, way = host.rank, own.issue.peer, own.issue.op
        assert peer is not None
        pair = (rank, peer) if way == "send" else (peer, rank)
        label = self._label(pair, way) if self.machine.visible else ""
        op = self._send(label, pair, own) if way == "send" else self._receive(label, pair, own)
        if host.chained:
            host.before(op)
        self.machine.edge(after, op)
        self.machine.submit(op)
        return op

    def coming(self, sender: int, receiver: int) -> Op:
        pair = sender, receiver
        op, waiting = Op(""), self._sends[pair]
        if waiting:
            self._come(op, waiting[0][1])
        else:
            self._coming[pair] = op
        return op

    def _come(self, op: Op, own: Contribution) -> None:
        self.machine.edges(own.before, op)
        self.machine.submit(op)

    def _label(self, pair: tuple[int, int], way: str) -> str:
        number = self._counts[(*pair, way)]
        self._counts[(*pair, way)] = number + 1
        return numbered_label(transfer_label(self.spec.name, *pair), number)

    def _send(self, label: str, pair: tuple[int, int], own: Contribution) -> Op:
        """Creates the op of a send. The sender submits it later."""
        machine, issue = self.machine, own.issue
        waiting = self._receives[pair]
        if issue.count * DTYPES[issue.dtype] <= self._eager_bytes:
            own.eager = True
            sent = Op(f"{label} sent" if label else "", self._transfer_cost, life=pair[0] if self.device else ~pair[0])
            sent.effect = own.keep
            self._touch(sent, [own])
            machine.edges(own.before, sent)
            if waiting:
                op, their = waiting.popleft()
                machine.edge(sent, op)
                self._match(op, own, their)
            else:
                self._sends[pair].append((sent, own))
                if self._coming:
                    self._arrive(pair, own)
            return sent
        if waiting:
            op, their = waiting.popleft()
            self._match(op, own, their)
        else:
            op = self._joint(label, pair, self._transfer_cost)
            self._sends[pair].append((op, own))
            if self._coming:
                self._arrive(pair, own)
        machine.edges(own.before, op)
        return op

    def _arrive(self, pair: tuple[int, int], own: Contribution) -> None:
        coming = self._coming.pop(pair, None)
        if coming is not None:
            self._come(coming, own)

    def _receive(self, label: str, pair: tuple[int, int], own: Contribution) -> Op:
        """Creates the op of a receive. The receiver submits it later."""
        waiting = self._sends[pair]
        if not waiting:
            op = self._joint(label, pair, self._transfer_cost)
            self._receives[pair].append((op, own))
        else:
            op, their = waiting.popleft()
            if their.eager:
                sent, op = op, self._joint(label, pair, 0)
                self.machine.edge(sent, op)
            self._match(op, their, own)
        self.machine.edges(own.before, op)
        return op

    def _joint(self, label: str, pair: tuple[int, int], cost: int) -> Op:
        op = Op(label, cost)
        op.pending = 2
        self._unfired[op] = pair
        return op

    def _match(self, op: Op, send: Contribution, receive: Contribution) -> None:
        """The second side has arrived. If the send was eager, the sender's submit of the joint op happens here."""
        op.effect, op.args = self._deliver, (op, send, receive)
        self._touch(op, [receive] if send.eager else [send, receive])
        if send.eager:
            self.machine.submit(op)

    def _deliver(self, op: Op, send: Contribution, receive: Contribution) -> None:
        del self._unfired[op]
        receive.receive(send.sent())

    def _touch(self, op: Op, brought: Sequence[Contribution]) -> None:
        if self.machine.visible:
            op.footprint = sum([one.touches for one in brought], ()) + self._lives or None
