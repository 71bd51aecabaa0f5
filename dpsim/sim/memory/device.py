"""The device of a rank: what the rank has once, for all its host threads.

A device has memory, streams as chains of ops, and communicators in whose collectives it takes part. If a kernel raises,
the device stops: its unfinished work never happens, and its hosts get the error. If a fault lets the host die at an op,
the device stops some time later. In untimed mode, the stop is an op that writes the device's life, and all device work
reads that life. So a search tries the stop before and after each piece of work.
"""

from __future__ import annotations

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.contract.events import FAILS_AT, LOSES_ITS_DEVICE, act, own_label
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
        """Adds a host that gets the error when the device stops."""
        if host not in self.threads:
            self.threads.append(host)

    def chain(self, name: str) -> Chain:
        """Returns the stream with that name. The first use creates it."""
        chain = self.chains.get(name)
        if chain is None:
            chain = self.chains[name] = Chain(self.machine, name, self.room)
        return chain

    def is_done(self) -> bool:
        """Whether all work on its streams has ended."""
        return all(chain.tail is None or chain.tail.at >= 0 for chain in self.chains.values())

    def fail(self, error: KernelError, by: Op) -> None:
        """If a search knows that this rank has such kernels, the stop is an op, and other streams may go on before."""
        machine, rank = self.machine, self.rank
        by.at, by.after, by.more, by.waiter, by.waiters = -1, None, None, None, None  # the kernel's op never fires
        if rank not in machine.failing:
            if machine.strategy is not None:
                machine.strategy.raised(rank)
            self._stop(error, by)
            return
        failure = DeviceFailure(
            own_label(rank, f"{FAILS_AT} {act(by.label)}"), 0, self._stop, machine.end_of(rank), rank
        )
        failure.args = error, failure
        failure.causes, failure.seen_marks = by.causes, by.seen_marks
        machine.submit(failure)

    def die(self, host: Host) -> None:
        """A fault let a host die at an op: the device stops some time later."""
        loss = Death(own_label(self.rank, LOSES_ITS_DEVICE), 0, self.lose, self.machine.end_of(self.rank))
        loss.strikes = lambda: False
        host.before(loss)
        self.machine.submit(loss)

    def _stop(self, error: KernelError, by: Op) -> None:
        self.lose()
        for host in self.threads:
            host.device_failed(error, by)

    def forget(self) -> None:
        """Drops all references at the end of the run, because kernel ops refer to their device: a reference cycle."""
        self.chains.clear()
        self.threads.clear()

    def lose(self) -> None:
        """Stops the device: its unfinished collectives never end."""
        self.machine.kill(self.rank)
        for group in self.groups:
            group.lose(self.rank)
