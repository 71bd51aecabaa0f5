"""Creates the parts of one run and connects them.

    wiring = Wiring(machine, world, program, costs)
    wiring.begin(program, prepared)         # starts the main thread of each rank, schedules kills
    wiring.machine.run(wiring.look)
    wiring.take_down()                      # ends all threads, and removes references between the parts

Each run creates its own parts; no part is used in two runs. The lists of journals, ends (how each program ended) and
hosts have one entry per rank, then one per service; `groups` has one per communicator. A communicator, host or mailbox
refers only to what this module gives it: the machine (ops and event loop), the journals, other parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dpsim.backend.journal.journal import RankJournal
from dpsim.backend.journal.own_raise import untraced
from dpsim.contract.ops import RawRecord
from dpsim.contract.program import Program
from dpsim.contract.undefined import Undefined
from dpsim.contract.world import CommunicatorSpec, End, Progress, World
from dpsim.sim.calls.communicators import SimDeviceCommunicator, SimHostCommunicator
from dpsim.sim.calls.life import kill, live, live_beside
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.collectives.groups import Group, Made
from dpsim.sim.collectives.joint import JointGroup
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.collectives.parts import PartedGroup
from dpsim.sim.collectives.residency import Slots
from dpsim.sim.graph.costs import Costs
from dpsim.sim.graph.environment import TICK
from dpsim.sim.graph.machine import Machine
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.progress import OpBound
from dpsim.sim.hosts.record_times import RecordTimes
from dpsim.sim.hosts.recurrence import Recurrence
from dpsim.sim.hosts.shared import SharedWatch
from dpsim.sim.hosts.threads import Threads
from dpsim.sim.hosts.turns import Promise
from dpsim.sim.hosts.watch import ProgressWatch
from dpsim.sim.memory.device import Device
from dpsim.sim.onlooker import looked_at, onlooker
from dpsim.sim.services.mailbox import Mailboxes
from dpsim.sim.services.notices import Notices
from dpsim.sim.services.ports import Ports


class Wiring:
    """`tick`: called now and then, or None. `record_times`: per rank and service, in a timed run with `World.times`."""

    def __init__(
        self,
        machine: Machine,
        world: World,
        program: Program[Any],
        costs: Costs,
        expandable: bool = False,
        progress: Progress | None = None,
        sharing: bool = False,
    ) -> None:
        self.machine = machine
        self.world = world
        self.journals: list[list[RawRecord]] = [[] for _ in range(world.actors)]
        self.ends: list[End] = ["blocked"] * world.actors
        self.waited = [0] * world.actors
        limit = world.residency
        self.slots = [Slots(machine, rank, limit) for rank in range(world.actors)] if limit else []
        self._costs = costs
        self.groups = self._make_groups(world.communicators)
        self._made: dict[CommunicatorSpec, Group] = {}
        """The groups that ranks have made during the run."""
        self.boxes, self.ports = Mailboxes(machine, world.actors), Ports(machine, world)
        self.notices = Notices(machine, self.boxes)
        timed = world.times and machine.timed
        self.record_times = [RecordTimes(own, machine.env) for own in self.journals] if timed else []
        self._shared = self._share_journals(program)
        watched = sharing and program.threaded and program.ordered_by_flags and not machine.timed
        promise: Promise = "objects" if program.ordered_by_objects else "flags" if program.ordered_by_flags else ""
        self.watches = [SharedWatch(one.rank) if watched else None for one in self._shared]
        self._threads = [
            Threads(one, own, machine, promise, watch) if program.threaded else None
            for one, own, watch in zip(self._shared, self.journals, self.watches, strict=True)
        ]
        self.hosts: list[Host] = [
            several.main if several is not None else Host(one.thread(), own, machine)
            for several, one, own in zip(self._threads, self._shared, self.journals, strict=True)
        ]
        front = self.hosts[0]
        self.tick = None if progress is None else lambda: progress(front.journal.step)
        watch = ProgressWatch(machine, self.hosts, self.ends, self.tick, self._waiters, world.services)
        machine.still, self.held_back = watch.still, watch.held_back
        for one in self._shared:
            one.look = partial(watch.look, one.rank)
        self.ranks = self._make_ranks(costs, expandable)
        for group in self.groups:
            self._connect(group, group.spec.ranks)
        for rank in self.ranks:
            rank.connect = partial(self._make_during_run, rank.rank)
        self._coroutines: list[Any] = []
        self._recurrence: Recurrence | None = None

    def _make_groups(self, specs: Sequence[CommunicatorSpec]) -> list[Group]:
        machine = self.machine
        if not machine.timed:
            groups: list[Group] = [PartedGroup(spec, machine) for spec in specs]
        else:
            groups = [JointGroup(spec, machine, self._costs, self.waited) for spec in specs]
        if self.world.lazy:
            for group in groups:
                group.made = Made(machine, group.spec) if group.device else None
        return groups

    def _make_during_run(self, number: int, spec: CommunicatorSpec) -> Any:
        group = self._made.get(spec)
        if group is None:
            [group] = self._make_groups([spec])
            self._made[spec] = group
            self.groups.append(group)
        self._connect(group, (number,))
        rank = self.ranks[number]
        return rank.devices.pop(spec.kind) if group.device else rank.hosts.pop(spec.kind)

    def _share_journals(self, program: Program[Any]) -> list[RankJournal]:
        world = self.world
        bound = None if world.progress is None else OpBound(self.machine, world.progress, self.journals)
        looks = onlooker()
        shared = []
        for rank, own in enumerate(self.journals):
            append = own.append if bound is None else bound.append_to(rank)
            append = append if looks is None else looked_at(looks, rank, append)
            shared.append(
                RankJournal(rank, world, self.record_times[rank].append_to(append) if self.record_times else append)
            )
        for one in shared:
            one.aborts = program.aborts
        return shared

    def _waiters(self, rank: int) -> list[Any]:
        several = self._threads[rank]
        return [host.waiter for host in ([self.hosts[rank]] if several is None else several.hosts)]

    def _make_ranks(self, costs: Costs, expandable: bool) -> list[SimRank]:
        machine, begin = self.machine, partial(live_beside, ends=self.ends)
        ranks = []
        for host, several in zip(self.hosts, self._threads, strict=True):
            device = Device(host.rank, machine, costs, expandable, self.world)
            rank = SimRank(host, device, self.boxes, self.notices, self.ports, several, begin)
            device.tell(host)
            if self.record_times:
                self.record_times[host.rank].chains = device.chains
            self._shared[rank.rank].injections.post = rank.from_outside
            ranks.append(rank)
        return ranks

    def _connect(self, group: Group, members: Sequence[int]) -> None:
        machine = self.machine
        for number in members:
            rank = self.ranks[number]
            rank.own_device.groups.append(group)
            host = rank.host_thread
            own = Membership(machine, group, number) if isinstance(machine, AbortingMachine) else None
            if group.spec.domain == "host":
                rank.hosts[group.spec.kind] = SimHostCommunicator(host, group, own)
            else:
                slots = self.slots[number] if self.slots else None
                rank.devices[group.spec.kind] = SimDeviceCommunicator(host, group, slots, own)

    @property
    def steps_set(self) -> tuple[int, ...]:
        """The highest step tag that the threads of each rank have set."""
        return tuple(max(own.step for own in one.threads.values()) for one in self._shared)

    def begin(self, program: Program[Any], prepared: Any) -> None:
        """Starts all ranks, and submits the kills of the world."""
        machine, ranks, ends = self.machine, self.ranks, self.ends
        self._coroutines = [live(rank, program, prepared, ends) for rank in ranks]
        if Recurrence.applies(self.world, program):
            self._recurrence = Recurrence(machine, self.hosts, self._coroutines, self.boxes)
        if (looks := onlooker()) is not None:
            looks.begins(self.machine, self.journals, self._coroutines)
        for rank, coroutine in zip(ranks, self._coroutines, strict=True):
            if rank.threads is None:
                machine.host(coroutine, rank.rank)
            else:
                rank.threads.begin(rank.threads.main, coroutine)
        for planted in self.world.kills:
            if planted.at is None:
                kill(machine, ranks[planted.rank], planted, ends)
            else:
                self._shared[planted.rank].injections.doom = partial(kill, machine, ranks[planted.rank], ends=ends)

    def look(self) -> int:
        """Called by the machine now and then, while no program runs. Returns after how many steps to call it again."""
        if self.tick is not None:
            self.tick()
        return TICK if self._recurrence is None else self._recurrence.tick()

    @property
    def undefined(self) -> tuple[Undefined, ...]:
        """The ranks that contributed a NaN to a device reduction by max or min."""
        return tuple([undefined for one in self._shared for undefined in one.undefined])

    def idle(self, rank: SimRank) -> bool:
        """Whether all threads of a rank wait in idle gets."""
        return self.hosts[rank.rank].idle if rank.threads is None else rank.threads.idle()

    def failed(self, rank: SimRank) -> BaseException | None:
        """Returns the error with which the device of a rank failed, or None."""
        return self.hosts[rank.rank].error

    def take_down(self) -> None:
        """Ends all threads, and breaks reference cycles, which only the garbage collector would find."""
        machine, self._recurrence = self.machine, None
        with untraced():
            for rank, coroutine in zip(self.ranks, self._coroutines, strict=True):
                if rank.threads is None:
                    coroutine.close()
                else:
                    rank.threads.close()
        for rank in self.ranks:
            rank.own_device.allocator.close()
            del rank.connect
        for one in self._shared:
            one.look = _nothing
            del one.injections.post, one.injections.make
            one.injections.begun.clear()
            one.threads.clear()
        self.boxes.close()
        self.notices.close()
        for group in self.groups:
            for membership in [*group.memberships.values()]:
                membership.forget()
            if group.any_source is not None:
                group.any_source.forget()
                group.any_source = None
        self.ports.forget()
        machine.env.close()
        del machine.submit, machine.fire, machine.alarms, machine.still

    def forget(self) -> None:
        """After the verdict about the ends: removes the last references of devices and threads."""
        for rank in self.ranks:
            rank.own_device.forget()
            if rank.threads is not None:
                rank.threads.forget()


def _nothing() -> None:
    pass
