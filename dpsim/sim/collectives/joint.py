"""Communicators in timed mode: a collective is one joint op of all members.

Each member counts its collectives on the communicator, and collectives of all members with the same number form one
joint op. The op starts when the last member arrives, and ends for all members at the same time. The contract allows
other timings as well; untimed mode tries those. Transfers are in `dpsim.sim.collectives.transfers`.
"""

from __future__ import annotations

from typing import TypeAlias

from dpsim.backend.journal.issue import Issue
from dpsim.contract.events import numbered_label
from dpsim.contract.ops import DTYPES
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.results import Results
from dpsim.sim.collectives.transfers import Transfers
from dpsim.sim.graph.costs import Costs
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host

Brought: TypeAlias = dict[int, Contribution]
"""The contributions to a collective, by rank."""


class JointGroup(Transfers):
    """A communicator whose collectives are joint ops. `waited[rank]`: how long the rank waited, in ns."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine, costs: Costs, waited: list[int]) -> None:
        super().__init__(spec, machine, costs)
        self._waited = waited
        self._cost = costs.on_device if self.device else costs.on_host
        self._open: dict[int, tuple[Op, Brought]] = {}
        self._latest: Op | None = None

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
        """Sets the cost, effect and footprint of the joint op, which are known when the last member has joined."""
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
