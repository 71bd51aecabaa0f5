"""Communicators that are made when they are first used, as torch makes those of NCCL.

The first use is a rendezvous: the host stands in the call until all members have reached their first use. A transfer
that is no part of a group has a separate communicator for its pair.

    made = Made(machine, spec)
    made.meet(host, (0, 1))                 # stands there until rank 1 has come, too; nothing the second time
"""

from __future__ import annotations

from dpsim.contract.schedule import numbered_label
from dpsim.contract.world import CommunicatorSpec
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Made:
    """What was made of one communicator so far: itself, and those of pairs."""

    def __init__(self, machine: Machine, spec: CommunicatorSpec) -> None:
        self._machine = machine
        self._name = spec.name
        self._came: dict[tuple[int, ...], set[int]] = {}
        self._formed: dict[tuple[int, ...], Op] = {}

    def knows(self, rank: int, members: tuple[int, ...]) -> bool:
        """Whether a rank has arrived to make it."""
        return rank in self._came.get(members, ())

    def meet(self, host: Host, members: tuple[int, ...]) -> None:
        """A host arrives to use it, by a call whose record is its last."""
        came = self._came.setdefault(members, set())
        if host.rank in came:
            return
        machine = self._machine
        formed = self._formed.get(members)
        if formed is None:
            formed = self._formed[members] = Op("")
        came.add(host.rank)
        label = numbered_label(f"makes {self._name}", members[-1] if len(members) == 2 else 0, host.word)
        arrival = host.op(label if machine.visible else "", host=True)
        machine.edge(arrival, formed)
        machine.submit(arrival)
        if len(came) == len(members):
            machine.submit(formed)
        host.stand((formed,), len(host.records))
