"""A communicator of the simulated machine, as its members share it: what both modes have in common.

In timed mode, a collective is one joint op of all members (`dpsim.sim.collectives.joint`). In untimed mode, each
member's part is a separate op (`dpsim.sim.collectives.parts`). A member may be through long before another one, and
that is an order to explore. In both modes a mismatch does not stop the machine, as it does not always stop hardware.
Each member gets what its own description asks for, as far as it fits, and the ledger check finds the mismatch in the
journals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from dpsim.backend.journal.issue import Issue
from dpsim.contract.schedule import Footprint
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.collectives.any_source import AnySource, Comes
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.lazy import Made
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Group(ABC):
    """A communicator: the collectives and transfers under way."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine) -> None:
        self.spec = spec
        self.machine = machine
        self.device = spec.domain == "device"
        self.last: dict[int, Op] = {}
        """Device domain: what each member put on this communicator last. As NCCL does, all that a rank puts on one
        communicator happens in that order, on whatever streams.
        """
        self.made: Made | None = None
        """Where communicators are made at first use."""
        self.memberships: dict[int, Any] = {}
        """Where members may abort it: what each has of it (`dpsim.sim.collectives.membership`)."""
        self.any_source: AnySource | None = None
        """Where members receive from any source."""
        self._size = len(spec.ranks)
        self._indices = {rank: index for index, rank in enumerate(spec.ranks)}
        self._next_seq = dict.fromkeys(spec.ranks, 0)
        self._unfired: dict[Op, Collection[int]] = {}
        """Ops that have not happened, and the ranks that each of them needs."""
        self._fragile = sorted(machine.fragile.intersection(spec.ranks)) if self.device else []
        self._lives = self._lives_of(self._fragile)

    @abstractmethod
    def join(self, host: Host, own: Contribution) -> Op:
        """A host joins the next collective of its rank; the answer is the op that ends it for this rank."""

    @abstractmethod
    def move(self, host: Comes, own: Contribution, after: Op | None = None) -> Op:
        """One side of a transfer; the answer is the op that ends it for this rank. `after`: what the rank put on this
        communicator before.
        """

    @abstractmethod
    def coming(self, sender: int, receiver: int) -> Op:
        """The op by which the sender comes with its next message to the receiver, which no receive has."""

    def receive_any(self, host: Comes, own: Contribution) -> Op:
        """Host domain: a receive from any source. The value of the op that ends it is the rank that sent."""
        if self.any_source is None:
            self.any_source = AnySource(self)
        return self.any_source.receive(host, own)

    def ended(self, host: Host, end: Op) -> Op:
        """Host domain: what a host waits for that awaits this end."""
        return end

    def lose(self, rank: int) -> None:
        """A member is gone: what it takes part in on its device and has not ended never ends."""
        if self.device:
            for op, ranks in self._unfired.items():
                if rank in ranks:
                    op.life = rank

    def no_root(self, issue: Issue) -> ValueError:
        """What to raise for a root that is no member."""
        members = self.spec.ranks
        return ValueError(f"{issue.op} on {self.spec.name}: root {issue.root} is none of its ranks {members}")

    def _lives_of(self, ranks: Collection[int]) -> Footprint:
        """A footprint: those of these devices that may stop have not stopped."""
        if not self._fragile:
            return ()
        return tuple([(("life", member), "r") for member in self._fragile if member in ranks])
