"""The device of a rank: what the rank has once, however many host threads it has.

A device has memory, streams as chains of ops, and communicators whose collectives it takes part in. A kernel that
raises stops it: nothing that it has under way happens any more, and its hosts learn of the error. A host that dies at
an op stops it too, at some time after that. In untimed mode, the stop of the device is an op, and all that the device
does reads its life.
"""

from __future__ import annotations

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.contract.schedule import act, own_label
from dpsim.contract.world import World
from dpsim.sim.collectives.groups import Group
from dpsim.sim.graph.costs import Costs
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Death, DeviceFailure, Op
from dpsim.sim.hosts.chain import Chain
from dpsim.sim.hosts.host import Host
from dpsim.sim.memory.allocator import CachingAllocator


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

    def tell(self, host: Host) -> None:
        """Add a host that learns of it when the device stops."""
        if host not in self.threads:
            self.threads.append(host)

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
        """A kernel failed: nothing of what is under way happens any more, and the hosts learn of the error. Where this
        rank is known to have such kernels, that is an op, before which other streams may go on.
        """
        machine, rank = self.machine, self.rank
        by.at, by.after, by.more, by.waiter, by.waiters = -1, None, None, None, None  # it never ends
        if rank not in machine.failing:
            if machine.strategy is not None:
                machine.strategy.raised(rank)
            self._stop(error, by)
            return
        failure = DeviceFailure(own_label(rank, f"fails at {act(by.label)}"), 0, self._stop, machine.end_of(rank), rank)
        failure.args = error, failure
        failure.causes, failure.seen_marks = by.causes, by.seen_marks
        machine.submit(failure)

    def die(self, host: Host) -> None:
        """A host died at an op, and the device stops at some time after that."""
        loss = Death(own_label(self.rank, "loses its device"), 0, self.lose, self.machine.end_of(self.rank))
        loss.strikes = lambda: False
        if host.chained:
            host.before(loss)
        self.machine.submit(loss)

    def _stop(self, error: KernelError, by: Op) -> None:
        self.lose()
        for host in self.threads:
            host.device_failed(error, by)

    def forget(self) -> None:
        """The run is over; drop all references, so that it leaves no cycles behind. Kernels know their device."""
        self.chains.clear()
        self.threads.clear()

    def lose(self) -> None:
        """The device stops, and the collectives that it takes part in never end."""
        self.machine.kill(self.rank)
        for group in self.groups:
            group.lose(self.rank)
