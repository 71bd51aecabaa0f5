"""The simulation as a backend: all ranks in one process, on one machine, on SimPy's clock or under a chooser of
schedules.

    >>> from dpsim.contract.world import World
    >>> SimBackend().unavailable(4096) is None
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy
import simpy

from dpsim.backend.journal.journal import RankJournal
from dpsim.backend.journal.trouble import trouble
from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.contract.ops import RawRecord
from dpsim.contract.program import Program, refuse_no_program
from dpsim.contract.registry import packages
from dpsim.contract.registry import prepared as prepare
from dpsim.contract.rules.shared_state import refuse_changes, state_of
from dpsim.contract.schedule import ByLabel, Choose, Strategy
from dpsim.contract.world import End, Lost, Progress, Run, World
from dpsim.sim.calls.communicators import SimDeviceCommunicator, SimHostCommunicator
from dpsim.sim.calls.life import kill, live, live_beside
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.collectives.groups import Group
from dpsim.sim.collectives.joint import JointGroup
from dpsim.sim.collectives.lazy import Made
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.collectives.parts import PartedGroup
from dpsim.sim.collectives.residency import Slots
from dpsim.sim.graph.costs import REFERENCE, Costs
from dpsim.sim.graph.environment import rare_collections
from dpsim.sim.graph.machine import Machine
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.progress import OpBound, Overdue
from dpsim.sim.hosts.threads import Threads
from dpsim.sim.hosts.watch import Endless, Watch
from dpsim.sim.memory.device import Device
from dpsim.sim.services.mailbox import Mailboxes
from dpsim.sim.services.notices import Notices
from dpsim.sim.services.ports import Ports


class SimBackend:
    """Runs a program on a simulated world. A hang is seen exactly: nothing can move any more and somebody has not
    ended.

    `costs`: of the timed mode. `choose`: the untimed mode, under this strategy. `keep_order`: note in `order` how
    visible ops fired, so that a timed run can be repeated untimed. `expandable`: the allocator's segments grow.
    `memory`: what touches the same device memory is a choice too; where races are looked for it need not be, since a
    run without one computes the same in any order.
    """

    name = "sim"

    def __init__(
        self,
        costs: Costs = REFERENCE,
        choose: Strategy | Choose | None = None,
        keep_order: bool = False,
        expandable: bool = False,
        memory: bool = True,
    ) -> None:
        self.costs = costs
        self.strategy = choose if choose is None or isinstance(choose, Strategy) else ByLabel(choose)
        self.keep_order = keep_order
        self.expandable = expandable
        self.memory = memory
        self.order: list[str] = []
        self.journals: list[list[RawRecord]] = []
        """Of the last run, also of one that was stopped."""
        self.learned: list[list[tuple[int, int]]] = []
        """Of the last untimed run, for each rank: (its step, what its host had learned by then), in order."""
        self.timeouts = False
        """Whether anybody waited with a time-out in any run, also in one that was stopped."""

    def unavailable(self, size: int) -> str | None:
        return None

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        entry, prepared = prepare(program, args)
        before = state_of(entry, prepared)
        run = self.run_program(world, entry, prepared, progress)
        refuse_changes(entry, prepared, before)
        return run

    def run_program(self, world: World, program: Program[Any], prepared: Any, progress: Progress | None = None) -> Run:
        """As `run`, for a program that is at hand."""
        if not isinstance(program, Program):
            refuse_no_program(program)
        dying = [fault.rank for fault in world.faults if fault.kind == "die"]
        make = AbortingMachine if program.aborts else Machine
        machine = make(self.strategy, world.kills, self.keep_order, self.memory, dying)
        slots = [Slots(machine, rank, world.residency) for rank in range(world.actors)] if world.residency else []
        waited = [0] * world.actors
        groups: list[Group] = (
            [JointGroup(spec, machine, self.costs, waited) for spec in world.communicators]
            if machine.timed
            else [PartedGroup(spec, machine) for spec in world.communicators]
        )
        if world.lazy:
            for group in groups:
                group.made = Made(machine, group.spec) if group.device else None
        boxes, ports = Mailboxes(machine, world.actors), Ports(machine, world)
        notices = Notices(machine, boxes)
        journals: list[list[RawRecord]] = [[] for _ in range(world.actors)]
        self.journals = journals
        ends: list[End] = ["blocked"] * world.actors
        bound = None if world.progress is None else OpBound(machine, world.progress, journals)
        shared = [
            RankJournal(rank, world, own.append if bound is None else bound.append_to(rank))
            for rank, own in enumerate(journals)
        ]
        for one in shared:
            one.aborts = program.aborts
        threads = [
            Threads(one, own, machine, program.ordered_by_flags) if program.threaded else None
            for one, own in zip(shared, journals, strict=True)
        ]
        hosts = [
            several.main if several is not None else Host(one.thread(), own, machine)
            for several, one, own in zip(threads, shared, journals, strict=True)
        ]

        def hosts_of(rank: int) -> Sequence[Host]:
            several = threads[rank]
            return [hosts[rank]] if several is None else several.hosts

        tick = None if progress is None else lambda: progress(hosts[0].journal.step)
        watch = Watch(machine, hosts, ends, tick, lambda rank: [host.waiter for host in hosts_of(rank)])
        for one in shared:
            one.look = partial(watch.look, one.rank)
        begin = partial(live_beside, ends=ends)
        ranks = [
            SimRank(
                host,
                Device(host.rank, machine, self.costs, self.expandable, world),
                boxes,
                notices,
                ports,
                several,
                begin,
            )
            for host, several in zip(hosts, threads, strict=True)
        ]
        for rank, host in zip(ranks, hosts, strict=True):
            rank.own_device.tell(host)
            shared[rank.rank].injections.post = rank.from_outside
        for group in groups:
            _connect(group, ranks, slots)
        coroutines = [live(rank, program, prepared, ends) for rank in ranks]
        for rank, coroutine in zip(ranks, coroutines, strict=True):
            if rank.threads is None:
                machine.host(coroutine)
            else:
                rank.threads.begin(rank.threads.main, coroutine)
        for told in world.kills:
            if told.at is None:
                kill(machine, ranks[told.rank], told, ends)
            else:
                shared[told.rank].injections.doom = partial(kill, machine, ranks[told.rank], ends=ends)
        endless: tuple[int, ...] = ()
        overdue, lost = False, ""
        try:
            with rare_collections():
                machine.run(tick)
        except Endless as error:
            endless, overdue = error.ranks, isinstance(error, Overdue)
        except Lost as error:
            lost = str(error)
        except KeyboardInterrupt as error:
            error.add_note(whereabouts(journals))
            raise
        except (MemoryError, OSError) as error:  # of the machine's own
            lost = trouble(error)
            if not lost:
                raise
        finally:  # a run leaves no cycles behind, which only the collector would find
            self.timeouts = self.timeouts or machine.alarms.awaited
            for rank, coroutine in zip(ranks, coroutines, strict=True):
                if rank.threads is None:
                    coroutine.close()
                else:
                    rank.threads.close()
            for rank in ranks:
                rank.own_device.allocator.close()
            for one in shared:
                one.look = _nothing
                del one.injections.post
                one.threads.clear()
            boxes.close()
            notices.close()
            for group in groups:
                for membership in [*group.memberships.values()]:
                    membership.forget()
            ports.forget()
            machine.env.close()
            del machine.submit, machine.fire, machine.alarms
        for rank in ranks:
            host = hosts[rank.rank]
            idle = host.idle if rank.threads is None else rank.threads.idle()
            if not idle or ends[rank.rank] != "blocked":
                continue
            if host.error is not None:  # nobody waited for the device any more
                ends[rank.rank] = "raised"
                rank.journal.raised(host.error, packages())
                lost = lost or trouble(host.error)
            elif rank.own_device.is_done():
                ends[rank.rank] = "finished"  # to stand in an idle get is to have ended well
        standing = []
        if not endless:
            standing = [rank.rank for rank in ranks if ends[rank.rank] == "blocked" and rank.cut()]
        for rank in ranks:
            rank.own_device.forget()
            if rank.threads is not None:
                rank.threads.forget()
        self.order = machine.order
        self.learned = [host.learned for host in hosts]
        return Run(
            backend=self.name,
            journals=journals,
            ends=ends,
            waited_ns=waited,
            elapsed_ns=machine.now,
            observed=f"lost: {lost}" if lost else _observed(ends, endless, overdue),
            standing=tuple(standing),
            occupied=tuple(full for one in slots if not endless and (full := one.full()) is not None),
            versions={"simpy": simpy.__version__, "numpy": numpy.__version__},
            endless=endless,
            overdue=overdue,
            lost=lost,
            services=world.services,
            taken=boxes.taken,
        )

    def close(self) -> None:
        pass


def _nothing() -> None:
    pass


def _observed(ends: list[End], endless: tuple[int, ...], overdue: bool) -> str:
    if overdue:
        return "no end within the bound on ops"
    if endless:
        return "nothing but repetition"
    return "" if all(end == "finished" for end in ends) else "nothing can move any more"


def _connect(group: Group, ranks: list[SimRank], slots: list[Slots]) -> None:
    """Give each member its communicator."""
    for number in group.spec.ranks:
        rank = ranks[number]
        rank.own_device.groups.append(group)
        host, machine = rank.host_thread, group.machine
        own = Membership(machine, group, number) if isinstance(machine, AbortingMachine) else None
        if group.spec.domain == "host":
            rank.hosts[group.spec.kind] = SimHostCommunicator(host, group, own)
        else:
            rank.devices[group.spec.kind] = SimDeviceCommunicator(host, group, slots[number] if slots else None, own)
