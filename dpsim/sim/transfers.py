"""Transfers on a communicator: sends and receives, matched by direction and sequence number.

A *rendezvous* is one joint op of both sides. An *eager* send is an op of the sender alone, and the receive comes after
it. Which one it is depends on the size in timed mode. Where there is no time it is drawn, once for all sends of a size
from one rank to another, for a protocol must hold under both.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from dpsim.ops import DTYPES
from dpsim.schedule import Footprint, numbered_label, transfer_label
from dpsim.sim.contribution import Contribution
from dpsim.sim.costs import Costs
from dpsim.sim.host import Host
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op
from dpsim.world import CommunicatorSpec


class Transfers:
    """The transfers of a communicator that are under way. `lives`: that its members live, as a footprint. `unfired`:
    the joint ops of the communicator that have not happened, and the ranks that each of them needs.
    """

    def __init__(
        self,
        spec: CommunicatorSpec,
        machine: Machine,
        costs: Costs,
        lives: Footprint,
        unfired: dict[Op, Sequence[int]],
    ) -> None:
        self.started = False
        """Whether there was any."""
        self._name = spec.name
        self._machine = machine
        self._device = spec.domain == "device"
        self._cost = costs.device_transfer if self._device else costs.host_transfer
        self._eager_bytes = costs.eager_bytes
        self._lives = lives
        self._unfired = unfired
        self._counts: defaultdict[tuple[int, int, str], int] = defaultdict(int)
        self._eager: dict[tuple[tuple[int, int], int], bool] = {}  # drawn
        self._sends: defaultdict[tuple[int, int], deque[tuple[Op, Contribution]]] = defaultdict(deque)
        self._receives: defaultdict[tuple[int, int], deque[tuple[Op, Contribution]]] = defaultdict(deque)

    def move(self, host: Host, own: Contribution, after: Op | None = None) -> Op:
        """One side of a transfer; the answer is the op that ends it for this rank. `after`: what the rank put on this
        communicator before.
        """
        self.started = True
        rank, peer, way = host.rank, own.issue.peer, own.issue.op
        assert peer is not None
        pair = (rank, peer) if way == "send" else (peer, rank)
        label = self._label(pair, way) if self._machine.visible else ""
        op = self._send(label, pair, own) if way == "send" else self._receive(label, pair, own)
        if host.chained:
            host.before(op)
        self._machine.edge(after, op)
        self._machine.submit(op)
        return op

    def _label(self, pair: tuple[int, int], way: str) -> str:
        number = self._counts[(*pair, way)]
        self._counts[(*pair, way)] = number + 1
        return numbered_label(transfer_label(self._name, *pair), number)

    def _send(self, label: str, pair: tuple[int, int], own: Contribution) -> Op:
        """The op of a send; the sender has yet to submit it."""
        machine, issue = self._machine, own.issue
        waiting = self._receives[pair]
        size = issue.count * DTYPES[issue.dtype]
        eager = size <= self._eager_bytes
        if not machine.timed:
            if (pair, size) not in self._eager:
                words = f"{transfer_label(self._name, *pair)} of {size} bytes"
                self._eager[pair, size] = machine.draw(words, ("eager", "rendezvous")) == 0
            eager = self._eager[pair, size]
        if eager:
            own.eager = True
            sent = Op(f"{label} sent" if label else "", self._cost, life=pair[0] if self._device else ~pair[0])
            sent.effect = own.keep
            machine.mark(sent)
            self._touch(sent, [own])
            machine.edges(own.before, sent)
            if waiting:
                op, their = waiting.popleft()
                machine.edge(sent, op)
                self._match(op, own, their)
            else:
                self._sends[pair].append((sent, own))
            return sent
        if waiting:
            op, their = waiting.popleft()
            self._match(op, own, their)
        else:
            op = self._joint(label, pair, self._cost)
            self._sends[pair].append((op, own))
        machine.edges(own.before, op)
        return op

    def _receive(self, label: str, pair: tuple[int, int], own: Contribution) -> Op:
        """The op of a receive; the receiver has yet to submit it."""
        waiting = self._sends[pair]
        if not waiting:
            op = self._joint(label, pair, self._cost)
            self._receives[pair].append((op, own))
        else:
            op, their = waiting.popleft()
            if their.eager:
                sent, op = op, self._joint(label, pair, 0)
                self._machine.edge(sent, op)
            self._match(op, their, own)
        self._machine.edges(own.before, op)
        return op

    def _joint(self, label: str, pair: tuple[int, int], cost: int) -> Op:
        """An op that happens when both sides have come."""
        op = Op(label, cost)
        op.pending = 2
        self._machine.mark(op)
        self._unfired[op] = pair
        return op

    def _match(self, op: Op, send: Contribution, receive: Contribution) -> None:
        """The second side has come. An eager send is over on its own side: that much of the op is submitted here."""
        op.effect, op.args = self._deliver, (op, send, receive)
        self._touch(op, [receive] if send.eager else [send, receive])
        if send.eager:
            self._machine.submit(op)

    def _deliver(self, op: Op, send: Contribution, receive: Contribution) -> None:
        del self._unfired[op]
        receive.receive(send.wire if send.wire is not None else send.sent())

    def _touch(self, op: Op, brought: Sequence[Contribution]) -> None:
        if self._machine.visible:
            op.footprint = sum([one.touches for one in brought], ()) + self._lives or None
