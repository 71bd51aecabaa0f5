"""A communicator of the simulated machine, as its members share it: what timed and untimed mode have in common.

If members call different collectives, the machine does not stop in either mode, since real hardware may not stop
either. Each member receives what its own call describes, as far as it fits. The ledger check (`dpsim.checks`) finds the
mismatch in the journals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from dpsim.backend.journal.issue import Issue
from dpsim.contract.events import IS_SERVED_BY, MAKES, numbered_label
from dpsim.contract.schedule import Footprint
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.collectives.any_source import AnySource, Comes
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Made:
    """The creation of one communicator at its first use, as torch creates those of NCCL, and of those for its pairs.

        made.meet(host, (0, 1))         # waits until rank 1 has called it, too; the second call returns at once

    The first use is a rendezvous: the host waits in its call until all members have made their first call. A transfer
    outside a coalesced group uses a separate communicator for its pair of ranks.
    """

    def __init__(self, machine: Machine, spec: CommunicatorSpec) -> None:
        self._machine = machine
        self._name = spec.name
        self._arrived: dict[tuple[int, ...], set[int]] = {}
        self._formed: dict[tuple[int, ...], Op] = {}

    def knows(self, rank: int, members: tuple[int, ...]) -> bool:
        """Whether a rank has already arrived at the creation of the communicator with these members."""
        return rank in self._arrived.get(members, ())

    def meet(self, host: Host, members: tuple[int, ...]) -> None:
        """Lets a host arrive at the first use; the record of its call is the last in its journal."""
        arrived = self._arrived.setdefault(members, set())
        if host.rank in arrived:
            return
        machine = self._machine
        formed = self._formed.get(members)
        if formed is None:
            formed = self._formed[members] = Op("")
        arrived.add(host.rank)
        label = numbered_label(f"{MAKES} {self._name}", members[-1] if len(members) == 2 else 0, host.word)
        arrival = host.op(label if machine.visible else "", host=True)
        machine.edge(arrival, formed)
        machine.submit(arrival)
        if len(arrived) == len(members):
            machine.submit(formed)
        host.stand((formed,), len(host.records))


class Group(ABC):
    """A communicator: its collectives and transfers under way."""

    def __init__(self, spec: CommunicatorSpec, machine: Machine) -> None:
        self.spec = spec
        self.machine = machine
        self.device = spec.domain == "device"
        self.last: dict[int, Op] = {}
        """Device domain: each member's last op, since NCCL too keeps the order of a rank's calls on all streams."""
        self.made: Made | None = None
        """Set if ranks create this communicator at its first use (`World.lazy`)."""
        self.memberships: dict[int, Any] = {}
        """By rank, its membership (`dpsim.sim.collectives.membership`), if ranks may abort."""
        self.any_source: AnySource | None = None
        """Set at the first receive from any source."""
        self._size = len(spec.ranks)
        self._indices = {rank: index for index, rank in enumerate(spec.ranks)}
        self._next_seq = dict.fromkeys(spec.ranks, 0)
        self._unfired: dict[Op, Collection[int]] = {}
        """Device ops that have not fired, each with the ranks that it needs."""
        self._fragile = sorted(machine.fragile.intersection(spec.ranks)) if self.device else []
        self._lives = self._lives_of(self._fragile)

    @abstractmethod
    def join(self, host: Host, own: Contribution) -> Op:
        """Returns the op that ends the rank's next collective. Raises ValueError if the root is no member."""

    @abstractmethod
    def move(self, host: Comes, own: Contribution, after: Op | None = None) -> Op:
        """Returns the op that ends one side of a transfer. `after`: the rank's previous op here."""

    @abstractmethod
    def coming(self, sender: int, receiver: int) -> Op:
        """Returns the op by which the sender arrives with its next message that no receive has taken."""

    def receive_any(self, host: Comes, own: Contribution) -> Op:
        """Host domain: returns the op that ends a receive from any source. Its value is the sender's rank."""
        if self.any_source is None:
            self.any_source = AnySource(self)
        return self.any_source.receive(host, own)

    def ended(self, host: Host, end: Op) -> Op:
        """Host domain: returns the op for which a host waits when it awaits a call that `end` ends."""
        return end

    def served(self, host: Host, members: Collection[int], end: Op) -> Op:
        """Returns the op that ends the rank's part, behind `end`. With a partial kill (`Kill.partial`), a member that
        dies may end the part of one peer and not of another.
        """
        machine, number = self.machine, host.part_number
        host.part_number += 1
        for victim in machine.partial:
            if victim == host.rank or victim not in members:
                continue
            what = f"{IS_SERVED_BY} {victim} in {self.spec.name}"
            label = numbered_label(what, number, host.word) if machine.visible else ""
            part = Op(label, 0, None, ((("life", victim), "r"),), victim if self.device else ~victim)
            machine.mark(part)
            host.before(part)
            machine.edge(end, part)
            machine.submit(part)
            end = part
        return end

    def lose(self, rank: int) -> None:
        """The device of a member has stopped: its unfinished device collectives and transfers never end."""
        if self.device:
            for op, ranks in self._unfired.items():
                if rank in ranks:
                    op.life = rank

    def no_root(self, issue: Issue) -> ValueError:
        """Returns the error for a root that is no member."""
        members = self.spec.ranks
        return ValueError(f"{issue.op} on {self.spec.name}: root {issue.root} is none of its ranks {members}")

    def _lives_of(self, ranks: Collection[int]) -> Footprint:
        """An op that reads the lives of these ranks happens only while their devices run."""
        if not self._fragile:
            return ()
        return tuple([(("life", member), "r") for member in self._fragile if member in ranks])
