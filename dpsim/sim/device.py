"""The device of a rank: what the rank has once, however many host threads it has.

Its memory, its streams as chains of ops, and the communicators whose collectives it takes part in. A kernel that raises
stops it: nothing that it has under way happens any more, and its hosts are told.
"""

from __future__ import annotations

from dpsim.backend.kernel_call import KernelError
from dpsim.sim.allocator import CachingAllocator
from dpsim.sim.chain import Chain
from dpsim.sim.costs import Costs
from dpsim.sim.groups import Group
from dpsim.sim.host import Host
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op
from dpsim.world import World


class Device:
    """The device of one rank. `threads`: the hosts that issue work to it."""

    def __init__(self, rank: int, machine: Machine, costs: Costs, expandable: bool, world: World) -> None:
        self.rank = rank
        self.machine = machine
        self.costs = costs
        self.allocator = CachingAllocator(expandable)
        self.room = world.launch_queue
        self.alloc_synchronises = world.alloc_synchronises
        self.chains: dict[str, Chain] = {}
        self.groups: list[Group] = []
        self.threads: list[Host] = []

    def chain(self, name: str) -> Chain:
        """The stream of that name, made when it is first asked for."""
        chain = self.chains.get(name)
        if chain is None:
            chain = self.chains[name] = Chain(self.machine, name, self.room)
        return chain

    def is_done(self) -> bool:
        """Whether nothing is left on its streams."""
        return all(chain.tail is None or chain.tail.at >= 0 for chain in self.chains.values())

    def fail(self, error: KernelError, by: Op) -> None:
        """A kernel failed: nothing of what is under way happens any more, and the hosts are told."""
        self.lose()
        for host in self.threads:
            host.device_failed(error, by)

    def lose(self) -> None:
        """The device stops, and the collectives that it takes part in never end."""
        self.machine.kill(self.rank)
        for group in self.groups:
            group.lose(self.rank)
