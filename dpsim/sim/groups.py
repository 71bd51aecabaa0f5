"""Communicators of the simulated machine, as their members share them: collectives and transfers.

A collective has a part for each member, found by the member's own sequence number on the communicator; with the
last part it becomes a joint op like any other. A mismatch does not stop the machine, as it does not always stop
hardware: each member gets what its own description asks for, as far as it fits, and the ledger check finds it in
the journals.

A transfer is matched by direction and sequence number. A *rendezvous* is one joint op. An *eager* send is an op of the
sender alone, and the receive comes after it: which one it is depends on the size in timed mode. Where there is no time
it is drawn, once for all sends of a size from one rank to another, for a protocol must hold under both.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from dpsim.backend.journal import Issue
from dpsim.ops import DTYPES
from dpsim.schedule import Footprint
from dpsim.sim.costs import Costs
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op
from dpsim.sim.parts import Host, Part
from dpsim.sim.residency import Slots
from dpsim.sim.results import Results
from dpsim.world import CommunicatorSpec


class Joint(Op):
    """A collective: what its members bring, by rank."""

    __slots__ = ("parts",)

    parts: dict[int, Part]


class Group:
    """A communicator: the collectives and transfers under way."""

    def __init__(
        self, spec: CommunicatorSpec, machine: Machine, costs: Costs, waited: list[int], slots: Sequence[Slots] = ()
    ) -> None:
        self.spec = spec
        self.machine = machine
        self.costs = costs
        self.slots = slots if spec.domain == "device" else ()
        self._waited = waited
        self._size = len(spec.ranks)
        self._places = {rank: place for place, rank in enumerate(spec.ranks)}
        self._cost = costs.on_host if spec.domain == "host" else costs.on_device
        self._transfer_cost = costs.host_transfer if spec.domain == "host" else costs.device_transfer
        self._next_seq = dict.fromkeys(spec.ranks, 0)
        self._open: dict[int, Joint] = {}
        self._unfired: dict[Op, Sequence[int]] = {}
        self._counts: defaultdict[tuple[int, int, str], int] = defaultdict(int)
        self._device = spec.domain == "device"
        mortal = sorted(machine.mortal.intersection(spec.ranks)) if self._device else []
        self._lives: Footprint = tuple((("life", member), "r") for member in mortal)
        self._moved = False
        self._eager: dict[tuple[tuple[int, int], int], bool] = {}  # drawn
        self._latest: Op | None = None
        self.last: dict[int, Op] = {}
        """Device domain: what each member put on this communicator last. As NCCL does, all that a rank puts on one
        communicator happens in that order, on whatever streams.
        """
        self._sends: defaultdict[tuple[int, int], deque[tuple[Op, Part]]] = defaultdict(deque)
        self._receives: defaultdict[tuple[int, int], deque[tuple[Op, Part]]] = defaultdict(deque)

    # ---- collectives

    def join(self, host: Host, part: Part) -> Op:
        """The part of a member, whose host joins; the answer is the joint op."""
        rank, issue, machine = host.rank, part.issue, self.machine
        if issue.root is not None and issue.root not in self._places:
            members = self.spec.ranks
            raise ValueError(f"{issue.op} on {self.spec.name}: root {issue.root} is none of its ranks {members}")
        seq = self._next_seq[rank]
        self._next_seq[rank] = seq + 1
        op = self._open.get(seq) or self._begin(seq)
        op.parts[rank] = part
        if not machine.timed:
            host.before(op)
        if self._device:
            if self._moved and rank in self.last:
                machine.edge(self.last[rank], op)
            self.last[rank] = op
        if len(op.parts) == self._size:
            del self._open[seq]
            self._all_joined(op, issue)
        if self.slots:
            self._reside(host, seq, op, part)
        else:
            machine.edges(part.before, op)
            machine.submit(op)
        return op

    def _begin(self, seq: int) -> Joint:
        """The joint op of a collective that nobody has joined yet."""
        machine = self.machine
        op = self._open[seq] = Joint(f"{self.spec.name} #{seq}" if machine.visible else "")
        op.parts = {}
        op.pending = self._size
        if self._device:
            machine.mark(op)
        machine.edge(self._latest, op)
        self._latest = op
        self._unfired[op] = self.spec.ranks
        return op

    def _all_joined(self, op: Joint, last: Issue) -> None:
        """What the joint op costs, does and touches is known now."""
        parts = op.parts.values()
        largest = max([max(part.source.size, part.output.size) for part in parts])
        op.cost = self._cost(self._size, largest * DTYPES[last.dtype])
        op.effect, op.args = self._complete, (op,)
        if self.machine.visible:
            uses = [self.slots[member].releases for member in self.spec.ranks] if self.slots else []
            uses += [part.touches for part in parts]
            op.footprint = self._with_lives(sum(uses, ()))

    def lose(self, rank: int) -> None:
        """A member is gone: what it takes part in on its device and has not ended never ends."""
        if self.spec.domain == "device":
            for op, ranks in self._unfired.items():
                if rank in ranks:
                    op.life = rank

    def _with_lives(self, touched: Footprint) -> Footprint | None:
        """A footprint, and that its members live."""
        return touched + self._lives or None

    def _reside(self, host: Host, seq: int, op: Op, part: Part) -> None:
        """With finite residency: the part starts to spin in a slot of its rank, then waits for its peers."""
        machine, rank, slots = self.machine, host.rank, self.slots[host.rank]
        head = Op("", life=rank)
        start = Op(f"rank {rank} starts {self.spec.name} #{seq}", footprint=self._with_lives(slots.acquires), life=rank)
        if not machine.timed:
            host.before(start)
        head.effect, head.args = slots.enter, (start,)
        machine.edges(part.before, head)
        machine.edge(head, start)
        machine.edge(start, op)
        part.before = (start,)
        machine.submit(head)
        machine.submit(op)

    def _complete(self, op: Joint) -> None:
        """Do a collective: all is sent before anything is received. What each member waited for the last one is added
        up.
        """
        del self._unfired[op]
        machine, waited, slots = self.machine, self._waited, self.slots
        timed, start = machine.timed, machine.now - op.cost
        parts, op.parts = op.parts, {}  # an op is kept by events, for long
        for (rank, part), result in zip(parts.items(), Results(self._places, parts).all(), strict=True):
            part.receive(result)
            if timed:
                came = part.joined
                for before in part.before:
                    if before.at > came:
                        came = before.at
                waited[rank] += start - came
            if slots:
                slots[rank].leave()

    # ---- transfers

    def move(self, host: Host, part: Part, after: Op | None = None) -> Op:
        """One side of a transfer; the answer is the op that ends it for this rank. `after`: what the rank put on this
        communicator before.
        """
        self._moved = True
        rank, peer, way = host.rank, part.issue.peer, part.issue.op
        assert peer is not None
        pair = (rank, peer) if way == "send" else (peer, rank)
        label = self._label(pair, way) if self.machine.visible else ""
        op = self._send(label, pair, part) if way == "send" else self._receive(label, pair, part)
        if not self.machine.timed:
            host.before(op)
        self.machine.edge(after, op)
        self.machine.submit(op)
        return op

    def _label(self, pair: tuple[int, int], way: str) -> str:
        number = self._counts[(*pair, way)]
        self._counts[(*pair, way)] = number + 1
        return f"{self.spec.name} {pair[0]}>{pair[1]} #{number}"

    def _send(self, label: str, pair: tuple[int, int], part: Part) -> Op:
        """The op of a send; the sender has yet to submit it."""
        machine, issue = self.machine, part.issue
        waiting = self._receives[pair]
        size = issue.count * DTYPES[issue.dtype]
        eager = size <= self.costs.eager_bytes
        if not machine.timed:
            if (pair, size) not in self._eager:
                words = f"{self.spec.name} {pair[0]}>{pair[1]} of {size} bytes"
                self._eager[pair, size] = machine.draw(words, ("eager", "rendezvous")) == 0
            eager = self._eager[pair, size]
        if eager:
            part.eager = True
            sent = Op(f"{label} sent" if label else "", self._transfer_cost, life=pair[0] if self._device else ~pair[0])
            sent.effect = part.keep
            machine.mark(sent)
            self._touch(sent, [part])
            machine.edges(part.before, sent)
            if waiting:
                op, their = waiting.popleft()
                machine.edge(sent, op)
                self._match(op, part, their)
            else:
                self._sends[pair].append((sent, part))
            return sent
        if waiting:
            op, their = waiting.popleft()
            self._match(op, part, their)
        else:
            op = self._joint(label, pair, self._transfer_cost)
            self._sends[pair].append((op, part))
        machine.edges(part.before, op)
        return op

    def _receive(self, label: str, pair: tuple[int, int], part: Part) -> Op:
        """The op of a receive; the receiver has yet to submit it."""
        waiting = self._sends[pair]
        if not waiting:
            op = self._joint(label, pair, self._transfer_cost)
            self._receives[pair].append((op, part))
        else:
            op, their = waiting.popleft()
            if their.eager:
                sent, op = op, self._joint(label, pair, 0)
                self.machine.edge(sent, op)
            self._match(op, their, part)
        self.machine.edges(part.before, op)
        return op

    def _joint(self, label: str, pair: tuple[int, int], cost: int) -> Op:
        """An op that happens when both sides have come."""
        op = Op(label, cost)
        op.pending = 2
        self.machine.mark(op)
        self._unfired[op] = pair
        return op

    def _match(self, op: Op, send: Part, receive: Part) -> None:
        """The second side has come. An eager send is over on its own side: that much of the op is submitted here."""
        op.effect, op.args = self._deliver, (op, send, receive)
        self._touch(op, [receive] if send.eager else [send, receive])
        if send.eager:
            self.machine.submit(op)

    def _deliver(self, op: Op, send: Part, receive: Part) -> None:
        del self._unfired[op]
        receive.receive(send.wire if send.wire is not None else send.sent())

    def _touch(self, op: Op, parts: Sequence[Part]) -> None:
        if self.machine.visible:
            op.footprint = self._with_lives(tuple(use for part in parts for use in part.touches))
