"""Communicators of the simulated machine, as their members share them: collectives, transfers, residency.

A collective has a part for each member, found by the member's own sequence number on the communicator; with the
last part it becomes a joint op like any other. A mismatch does not stop the machine, as it does not always stop
hardware: each member gets what its own description asks for, as far as it fits, and the ledger check finds it in
the journals.

A transfer is matched by direction and sequence number. A *rendezvous* is one joint op. An *eager* send is an op of the
sender alone, and the receive comes after it: which one it is depends on the size in timed mode, and is a choice where
there is no time, for a protocol must hold under both.

While a device collective waits for its peers its kernel occupies the GPU. Where residency is finite, a member's
part first acquires a slot of its rank, in the order in which parts come to the head of their streams, and the joint
op releases it: two communicators on two streams and one slot can block each other for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpsim.interface import HostArray
from dpsim.journal import Issue
from dpsim.journaled import resized
from dpsim.ops import DTYPES
from dpsim.sim.costs import Costs
from dpsim.sim.machine import Footprint, Machine, Op
from dpsim.world import CommunicatorSpec

REDUCTIONS: dict[str | None, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, None: np.add}


class Part:
    """What one member brings: what it announces, the memory that it reads and writes, and since when it waits."""

    __slots__ = ("before", "issue", "joined", "output", "source")

    def __init__(self, issue: Issue, output: HostArray, source: HostArray, before: Op | None, joined: int) -> None:
        self.issue = issue
        self.output = output
        self.source = source
        self.before = before
        self.joined = joined

    @property
    def came(self) -> int:
        """When its host had joined and its stream had come so far."""
        return max(self.joined, self.before.at if self.before is not None else 0)

    def sent(self) -> HostArray:
        return resized(self.source, self.issue) if self.issue.altered else np.array(self.source.reshape(-1))

    def receive(self, wire: HostArray) -> None:
        flat = self.output.reshape(-1)
        size = min(flat.size, wire.size)
        flat[:size] = wire[:size]


class Slots:
    """The residency of one rank: so many device collectives at a time."""

    def __init__(self, machine: Machine, rank: int, number: int) -> None:
        self._machine = machine
        self._free = number
        self._queue: deque[Op] = deque()
        self.acquires: Callable[[], Footprint] = lambda: ((("slots", rank), "a"),)
        self.releases: Footprint = ((("slots", rank), "l"),)

    def enter(self, op: Op) -> None:
        """`op` may start when a slot is free; called when nothing else holds it back."""
        if self._free:
            self._free -= 1
            self._machine.submit(op)
        else:
            self._queue.append(op)

    def leave(self) -> None:
        self._free += 1
        if self._queue:
            self._free -= 1
            self._machine.submit(self._queue.popleft())


class Group:
    """A communicator: the collectives and transfers under way."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine, costs: Costs, slots: Sequence[Slots] = ()) -> None:
        self.spec = spec
        self.machine = machine
        self.costs = costs
        self.slots = slots if spec.domain == "device" else ()
        self.waited: Callable[[int, int], None] = lambda rank, ns: None
        self._cost = costs.on_host if spec.domain == "host" else costs.on_device
        self._next_seq = dict.fromkeys(spec.ranks, 0)
        self._open: dict[int, tuple[Op, dict[int, Part]]] = {}
        self._unfired: dict[Op, dict[int, Part]] = {}
        self._latest: Op | None = None
        self._sends: dict[tuple[int, int], deque[tuple[Op, Part]]] = {}
        self._receives: dict[tuple[int, int], deque[tuple[Op, Part]]] = {}

    # ---- collectives

    def join(self, rank: int, issue: Issue, output: HostArray, source: HostArray, before: Op | None) -> Op:
        """A member's part, which comes after `before`; the answer is the joint op."""
        members = self.spec.ranks
        if issue.root is not None and issue.root not in members:
            raise ValueError(f"{issue.op} on {self.spec.name}: root {issue.root} is none of its ranks {members}")
        machine = self.machine
        seq = self._next_seq[rank]
        self._next_seq[rank] = seq + 1
        if seq not in self._open:
            op = Op(f"{self.spec.name} #{seq}" if machine.visible else "")
            op.pending = len(members)
            machine.edge(self._latest, op)
            self._latest = op
            self._open[seq] = op, {}
            self._unfired[op] = self._open[seq][1]
        op, parts = self._open[seq]
        part = parts[rank] = Part(issue, output, source, before, machine.now)
        if len(parts) == len(members):
            largest = max(max(one.output.size, one.source.size) for one in parts.values())
            op.cost = self._cost(len(members), largest * DTYPES[issue.dtype])
            op.effect = lambda: self._complete(op, parts)
            if machine.visible:
                touched = tuple((("group", self.spec.name, r, seq), "w") for r in parts) if self.slots else ()
                op.footprint = lambda: (*touched, *[use for r in parts for use in self._uses(r)])
            del self._open[seq]
        if self.slots:
            self._reside(rank, seq, op, before, part)
        else:
            machine.edge(before, op)
            machine.submit(op)
        return op

    def lose(self, rank: int) -> None:
        """A member is gone: what it joined on its device and has not ended never ends."""
        if self.spec.domain == "device":
            for op, parts in self._unfired.items():
                if rank in parts:
                    op.life = rank

    def _uses(self, rank: int) -> Footprint:
        return self.slots[rank].releases if self.slots else ()

    def _reside(self, rank: int, seq: int, op: Op, before: Op | None, part: Part) -> None:
        """With finite residency: the part starts to spin in a slot of its rank, then waits for its peers."""
        machine, slots = self.machine, self.slots[rank]
        head = Op(f"rank {rank} {self.spec.name} #{seq} comes to the head of its stream", life=rank)
        start = Op(f"rank {rank} {self.spec.name} #{seq} starts", footprint=slots.acquires, life=rank)
        head.effect = lambda: slots.enter(start)
        part.before = start
        machine.edge(before, head)
        machine.edge(start, op)
        machine.submit(head)
        machine.submit(op)

    def _complete(self, op: Op, parts: dict[int, Part]) -> None:
        """Do a collective; what each member waited for the last one is added up."""
        del self._unfired[op]
        wires = {rank: part.sent() for rank, part in parts.items()}
        reduced: dict[str | None, HostArray] = {}
        start = self.machine.now - op.cost
        for rank, part in parts.items():
            part.receive(self._result(rank, part.issue, wires, parts, reduced))
            self.waited(rank, start - part.came)
            if self.slots:
                self.slots[rank].leave()

    def _result(
        self,
        rank: int,
        issue: Issue,
        wires: dict[int, HostArray],
        parts: dict[int, Part],
        reduced: dict[str | None, HostArray],
    ) -> HostArray:
        members, place = self.spec.ranks, self.spec.ranks.index(rank)
        if issue.op == "broadcast":
            assert issue.root is not None
            return wires[issue.root]
        if issue.op in ("all_reduce", "reduce_scatter"):
            if issue.reduce not in reduced:
                reduced[issue.reduce] = _reduce(issue.reduce, [wires[member] for member in members])
            total = reduced[issue.reduce]
            if issue.op == "all_reduce":
                return total
            return _pieces(total, issue.sizes, len(members))[place]
        if issue.op == "all_gather":
            return np.concatenate([wires[member] for member in members])
        if issue.op == "all_to_all":
            count = len(members)
            cut = {member: _pieces(wires[member], parts[member].issue.sizes[:count], count) for member in members}
            come = [cut[member][place] for member in members]
            return np.concatenate(come)
        return np.empty(0, issue.dtype)

    # ---- transfers

    def move(self, rank: int, issue: Issue, array: HostArray, before: Op | None) -> Op:
        """One side of a transfer, which comes after `before`; the answer is the op that ends it for this rank."""
        assert issue.peer is not None
        part = Part(issue, array, array, before, self.machine.now)
        if issue.op == "send":
            return self._send(rank, issue.peer, part)
        return self._receive(rank, issue.peer, part)

    def _send(self, rank: int, to: int, part: Part) -> Op:
        machine, issue = self.machine, part.issue
        label = f"rank {rank} sends to {to} on {self.spec.name}" if machine.visible else ""
        waiting = self._receives.setdefault((rank, to), deque())
        eager = issue.count * DTYPES[issue.dtype] <= self.costs.eager_bytes
        if not machine.timed:
            eager = machine.choose(f"{label}: eager?", ("eager", "rendezvous")) == 0
        if eager:
            wire: list[HostArray] = []
            sent = Op(label, self._transfer_cost, lambda: wire.append(part.sent()), life=rank)
            machine.edge(part.before, sent)
            machine.submit(sent)
            if waiting:
                receive, their = waiting.popleft()
                self._fill(sent, wire, receive, their)
            else:
                self._sends.setdefault((rank, to), deque()).append((sent, _Eager(part, wire)))
            return sent
        if waiting:
            receive, their = waiting.popleft()
        else:
            receive, their = Op(label, self._transfer_cost), None  # type: ignore[assignment]
            receive.pending = 2
            self._sends.setdefault((rank, to), deque()).append((receive, part))
        machine.edge(part.before, receive)
        if their is not None:
            receive.effect = lambda: their.receive(part.sent())
        machine.submit(receive)
        return receive

    def _receive(self, rank: int, source: int, part: Part) -> Op:
        machine = self.machine
        waiting = self._sends.setdefault((source, rank), deque())
        if not waiting:
            label = f"rank {rank} receives from {source} on {self.spec.name}" if machine.visible else ""
            receive = Op(label, self._transfer_cost)
            receive.pending = 2
            machine.edge(part.before, receive)
            self._receives.setdefault((source, rank), deque()).append((receive, part))
            machine.submit(receive)
            return receive
        op, theirs = waiting.popleft()
        if isinstance(theirs, _Eager):
            label = f"rank {rank} receives from {source} on {self.spec.name}" if machine.visible else ""
            receive = Op(label, 0)
            receive.pending = 2
            machine.edge(part.before, receive)
            self._fill(op, theirs.wire, receive, part)
            machine.submit(receive)
            return receive
        machine.edge(part.before, op)
        op.effect = lambda: part.receive(theirs.sent())
        machine.submit(op)
        return op

    def _fill(self, sent: Op, wire: list[HostArray], receive: Op, part: Part) -> None:
        """The receive of an eager send."""
        receive.effect = lambda: part.receive(wire[0])
        self.machine.edge(sent, receive)
        self.machine.submit(receive)

    @property
    def _transfer_cost(self) -> int:
        return self.costs.host_transfer if self.spec.domain == "host" else self.costs.device_transfer


class _Eager(Part):
    """An eager send that has not been received yet; `wire` gets its content when it fires."""

    __slots__ = ("wire",)

    def __init__(self, part: Part, wire: list[HostArray]) -> None:
        super().__init__(part.issue, part.output, part.source, part.before, part.joined)
        self.wire = wire


def _reduce(op: str | None, wires: Sequence[HostArray]) -> HostArray:
    """Elementwise over wires that may differ in length; shorter ones have no say in the rest."""
    total = np.array(max(wires, key=len))
    longest = next(index for index, wire in enumerate(wires) if len(wire) == len(total))
    for index, wire in enumerate(wires):
        if index != longest:
            total[: len(wire)] = REDUCTIONS[op](total[: len(wire)], wire.astype(total.dtype))
    return total


def _pieces(array: HostArray, sizes: Sequence[int], members: int) -> list[HostArray]:
    """The array cut by sizes, or into equal parts."""
    parts = sizes or [len(array) // members] * members
    ends = np.cumsum(parts)
    return [array[end - size : end] for end, size in zip(ends, parts, strict=True)]
