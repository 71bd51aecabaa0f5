"""The contract on the simulated machine: memory is numpy, a stream is a chain of ops.

The tail of a stream is what its next op waits for. A collective has a part for each member, found by the member's
own sequence number on the communicator; with the last part it becomes a joint op like any other.

A mismatch does not stop the machine, as it does not always stop hardware: each member gets what its own description
asks for, as far as it fits, and the ledger check finds the mismatch in the journals.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy

from dpsim.interface import Buffer, Frozen, HostArray, Kernel, Stream
from dpsim.journal import Issue, Journal
from dpsim.journaled import (
    JournaledBuffer,
    JournaledDeviceCommunicator,
    JournaledHostCommunicator,
    JournaledRank,
    JournaledStream,
    resized,
)
from dpsim.ops import DTYPES, DType
from dpsim.sim.costs import Costs
from dpsim.sim.machine import Machine, Op
from dpsim.world import CommunicatorSpec

Outcome = Callable[[], Generator[Any, Any, HostArray]]


class KernelError(RuntimeError):
    """A kernel raised, perhaps long after its launch. Its host hears of it when it next waits for the device."""


class SimRank(JournaledRank):
    """One rank of the simulation."""

    def __init__(self, journal: Journal, machine: Machine, costs: Costs, groups: Sequence[Group]) -> None:
        super().__init__(journal)
        self.machine = machine
        self.costs = costs
        self.waited_ns = 0
        self.error: KernelError | None = None
        self._at_device: tuple[Op, simpy.Event] | None = None
        self._groups = groups
        for group in groups:
            if self.rank in group.spec.ranks:
                group.ranks[self.rank] = self
                if group.spec.domain == "host":
                    self.hosts[group.spec.kind] = SimHostCommunicator(self, group)
                else:
                    self.devices[group.spec.kind] = SimDeviceCommunicator(self, group)

    def _stream(self, name: str) -> Stream:
        return SimStream(self, name)

    def wait_for_device(self, op: Op) -> Generator[Any, Any, Any]:
        """The value of an op of the device. Raises the error of a kernel that failed."""
        if self.error is None and op.at < 0:
            waiter = simpy.Event(self.machine.env)
            op.waiters = [*(op.waiters or []), waiter]
            self._at_device = op, waiter
            yield waiter
            self._at_device = None
        if self.error is not None:
            raise self.error
        return op.value

    def fail(self, error: KernelError) -> None:
        """A kernel failed: nothing of what its device has under way happens any more."""
        self.error = error
        self.lose_device()
        if self._at_device is not None:
            op, waiter = self._at_device
            if op.waiters is not None:
                op.waiters.remove(waiter)
            waiter.succeed()

    def lose_device(self) -> None:
        """The device stops, and the collectives that it takes part in never end."""
        self.machine.kill(self.rank)
        for group in self._groups:
            group.lose(self.rank)


class SimStream(JournaledStream):
    """A chain of ops."""

    def __init__(self, rank: SimRank, name: str) -> None:
        super().__init__(rank.journal, name)
        self.rank = rank
        self.tail: Op | None = None

    def append(self, op: Op) -> None:
        """Put an op at the end."""
        machine = self.rank.machine
        machine.edge(self.tail, op)
        self.tail = op
        machine.submit(op)

    def _alloc(self, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> Buffer:
        return SimBuffer(self, shape, dtype, site, ordinal)

    def _launch(
        self, site: str, kernel: Kernel, buffers: Sequence[Buffer], args: tuple[Frozen, ...], cost: int | None
    ) -> None:
        arrays = [_array(buffer) for buffer in buffers]
        rank, ordinal = self.rank.rank, self.journal.last_ordinal(site)

        def effect() -> None:
            try:
                kernel(*arrays, *args)
            except Exception as error:
                message = (
                    f"kernel {kernel.__qualname__} of rank {rank} {site}[{ordinal}]: {type(error).__name__}: {error}"
                )
                failed = KernelError(message)
                failed.__cause__ = error
                self.rank.fail(failed)

        self.append(Op("kernel", self.rank.costs.kernel if cost is None else cost, effect, rank))

    def _spin(self, ns: int) -> None:
        self.append(Op("delay", ns, life=self.rank.rank))


class SimBuffer(JournaledBuffer):
    """A numpy array."""

    def __init__(self, stream: SimStream, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> None:
        super().__init__(stream, shape, dtype, site, ordinal)
        self.owner = stream
        self.array: HostArray = np.empty(shape, dtype)

    def _copy(self, delay_ns: int) -> Outcome:
        rank = self.owner.rank
        op = Op("read", rank.costs.read + delay_ns, self.array.copy, rank.rank)
        self.owner.append(op)
        return lambda: rank.wait_for_device(op)

    def _release(self) -> None:
        pass  # memory is not reused by this machine


class Group:
    """A communicator as its members share it: the collectives under way, by sequence number."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine, costs: Costs) -> None:
        self.spec = spec
        self.machine = machine
        self.cost = costs.on_host if spec.domain == "host" else costs.on_device
        self.next_seq = dict.fromkeys(spec.ranks, 0)
        self.ranks: dict[int, SimRank] = {}
        self.open: dict[int, tuple[Op, dict[int, Part]]] = {}
        self.unfired: dict[Op, dict[int, Part]] = {}
        self.latest: Op | None = None

    def join(self, rank: int, issue: Issue, array: HostArray, before: Op | None) -> Op:
        """A member's part, which comes after `before`; the answer is the joint op."""
        if issue.root is not None and issue.root not in self.spec.ranks:
            raise ValueError(f"broadcast on {self.spec.name}: root {issue.root} is none of its ranks {self.spec.ranks}")
        seq = self.next_seq[rank]
        self.next_seq[rank] = seq + 1
        if seq not in self.open:
            op = Op("collective")
            op.pending = len(self.spec.ranks)
            self.machine.edge(self.latest, op)
            self.latest = op
            self.open[seq] = op, {}
            self.unfired[op] = self.open[seq][1]
        op, parts = self.open[seq]
        parts[rank] = Part(issue, array, before, self.machine.now)
        self.machine.edge(before, op)
        if len(parts) == len(self.spec.ranks):
            op.cost = self.cost(len(parts), issue.count * DTYPES[issue.dtype])
            op.effect = lambda: self.complete(op, parts)
            del self.open[seq]
        self.machine.submit(op)
        return op

    def lose(self, rank: int) -> None:
        """A member is gone: what it joined on its device and has not ended never ends."""
        if self.spec.domain == "device":
            for op, parts in self.unfired.items():
                if rank in parts:
                    op.life = rank

    def complete(self, op: Op, parts: dict[int, Part]) -> None:
        """Do a collective; what each member waited for the last one is added up."""
        wires = {rank: np.array(part.sent()) for rank, part in parts.items()}
        total = np.zeros(max(wire.size for wire in wires.values()), next(iter(wires.values())).dtype)
        for wire in wires.values():
            total[: wire.size] += wire.astype(total.dtype)
        del self.unfired[op]
        start = self.machine.now - op.cost
        for rank, part in parts.items():
            part.receive(total if part.issue.root is None else wires[part.issue.root])
            self.ranks[rank].waited_ns += start - part.came


class Part:
    """What one member brings to a collective: what it announces, the memory that it reads and writes, and when it
    came.
    """

    __slots__ = ("array", "before", "issue", "joined")

    def __init__(self, issue: Issue, array: HostArray, before: Op | None, joined: int) -> None:
        self.issue = issue
        self.array = array
        self.before = before
        self.joined = joined

    @property
    def came(self) -> int:
        """When its host had joined and its stream had come so far."""
        return max(self.joined, self.before.at if self.before is not None else 0)

    def sent(self) -> HostArray:
        return resized(self.array, self.issue) if self.issue.altered else self.array.reshape(-1)

    def receive(self, wire: HostArray) -> None:
        flat = self.array.reshape(-1)
        size = min(flat.size, wire.size, self.issue.count)
        flat[:size] = wire[:size]


class SimHostCommunicator(JournaledHostCommunicator):
    """Host collectives: the joint op waits for the hosts."""

    def __init__(self, rank: SimRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self.owner = rank
        self.group = group

    def _start(self, issues: list[Issue], array: HostArray) -> Outcome:
        rank, machine = self.owner, self.owner.machine
        result, last = np.array(array), Op("nothing to wait for")
        machine.submit(last)
        for issue in issues:
            late: Op | None = None
            if issue.delay_ns:
                late = Op("delay", issue.delay_ns)
                machine.submit(late)
            result = np.array(array)
            last = self.group.join(rank.rank, issue, result, late)

        def outcome() -> Generator[Any, Any, HostArray]:
            yield from machine.wait(last)
            return result

        return outcome


class SimDeviceCommunicator(JournaledDeviceCommunicator):
    """Device collectives: the joint op waits for the members' streams and holds them until it has ended."""

    def __init__(self, rank: SimRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self.group = group

    def _put(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        assert isinstance(stream, SimStream)
        for issue in issues:
            if issue.delay_ns:
                stream._spin(issue.delay_ns)
            stream.tail = self.group.join(self.journal.rank, issue, _array(buffer), stream.tail)


def _array(buffer: Buffer) -> HostArray:
    assert isinstance(buffer, SimBuffer), f"a buffer of this simulation is needed, not a {type(buffer).__name__}"
    return buffer.array
