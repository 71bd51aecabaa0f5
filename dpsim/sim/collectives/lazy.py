"""Communicators that ranks create at their first use, as torch creates those of NCCL.

The first use of a communicator is a rendezvous: the host waits in its call until all members have made their first
call. A transfer outside a coalesced group uses a separate communicator for its pair of ranks, so its first use is a
rendezvous of two.

    made = Made(machine, spec)
    made.meet(host, (0, 1))                 # waits until rank 1 has called it, too; the second call returns at once
"""

from __future__ import annotations

from dpsim.contract.events import MAKES, numbered_label
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Made:
    """The creation of one communicator, and of the communicators for its pairs."""

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
