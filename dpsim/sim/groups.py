"""Communicators of the simulated machine, as their members share them. Transfers are in `dpsim.sim.transfers`.

A collective has a contribution of each member, found by the member's own sequence number on the communicator; with the
last one it becomes a joint op like any other. A mismatch does not stop the machine, as it does not always stop
hardware: each member gets what its own description asks for, as far as it fits, and the ledger check finds it in
the journals.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.backend.issue import Issue
from dpsim.ops import DTYPES
from dpsim.schedule import Footprint, numbered_label
from dpsim.sim.contribution import Contribution
from dpsim.sim.costs import Costs
from dpsim.sim.host import Host
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op
from dpsim.sim.results import Results
from dpsim.sim.transfers import Transfers
from dpsim.world import CommunicatorSpec


class Joint(Op):
    """A collective: what its members bring, by rank."""

    __slots__ = ("brought",)

    brought: dict[int, Contribution]


class Group:
    """A communicator: the collectives and transfers under way."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine, costs: Costs, waited: list[int]) -> None:
        self.spec = spec
        self.machine = machine
        self._device = spec.domain == "device"
        self._waited = waited
        self._size = len(spec.ranks)
        self._indices = {rank: index for index, rank in enumerate(spec.ranks)}
        self._cost = costs.on_device if self._device else costs.on_host
        self._next_seq = dict.fromkeys(spec.ranks, 0)
        self._open: dict[int, Joint] = {}
        self._unfired: dict[Op, Sequence[int]] = {}
        mortal = sorted(machine.mortal.intersection(spec.ranks)) if self._device else []
        self._lives: Footprint = tuple((("life", member), "r") for member in mortal)
        self._latest: Op | None = None
        self.last: dict[int, Op] = {}
        """Device domain: what each member put on this communicator last. As NCCL does, all that a rank puts on one
        communicator happens in that order, on whatever streams.
        """
        self.transfers = Transfers(spec, machine, costs, self._lives, self._unfired)

    def join(self, host: Host, own: Contribution) -> Op:
        """A host joins the next collective of its rank; the answer is the joint op."""
        rank, issue, machine = host.rank, own.issue, self.machine
        if issue.root is not None and issue.root not in self._indices:
            members = self.spec.ranks
            raise ValueError(f"{issue.op} on {self.spec.name}: root {issue.root} is none of its ranks {members}")
        seq = self._next_seq[rank]
        self._next_seq[rank] = seq + 1
        op = self._open.get(seq) or self._begin(seq)
        op.brought[rank] = own
        if host.chained:
            host.before(op)
        if self._device:
            if self.transfers.started and rank in self.last:
                machine.edge(self.last[rank], op)
            self.last[rank] = op
        if len(op.brought) == self._size:
            del self._open[seq]
            self._all_joined(op, issue)
        machine.edges(own.before, op)
        machine.submit(op)
        return op

    def _begin(self, seq: int) -> Joint:
        """The joint op of a collective that nobody has joined yet."""
        machine = self.machine
        op = self._open[seq] = Joint(numbered_label(self.spec.name, seq) if machine.visible else "")
        op.brought = {}
        op.pending = self._size
        if self._device:
            machine.mark(op)
        machine.edge(self._latest, op)
        self._latest = op
        self._unfired[op] = self.spec.ranks
        return op

    def _all_joined(self, op: Joint, last: Issue) -> None:
        """What the joint op costs, does and touches is known now."""
        brought = op.brought.values()
        largest = max([max(one.source.size, one.output.size) for one in brought])
        op.cost = self._cost(self._size, largest * DTYPES[last.dtype])
        op.effect, op.args = self._complete, (op,)
        if self.machine.visible:
            op.footprint = sum([one.touches for one in brought], ()) + self._lives or None

    def lose(self, rank: int) -> None:
        """A member is gone: what it takes part in on its device and has not ended never ends."""
        if self._device:
            for op, ranks in self._unfired.items():
                if rank in ranks:
                    op.life = rank

    def _complete(self, op: Joint) -> None:
        """Do a collective: all is sent before anything is received. What each member waited for the last one is added
        up.
        """
        del self._unfired[op]
        machine, waited = self.machine, self._waited
        timed, start = machine.timed, machine.now - op.cost
        brought, op.brought = op.brought, {}  # an op is kept by events, for long
        for (rank, own), result in zip(brought.items(), Results(self._indices, brought).all(), strict=True):
            own.receive(result)
            if timed:
                came = own.joined
                for before in own.before:
                    if before.at > came:
                        came = before.at
                waited[rank] += start - came
