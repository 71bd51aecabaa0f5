"""The life of a rank on the simulated machine: it runs its program, then synchronizes its device. A fault or a kill may
end it earlier.

`ends` is the list with the end of each rank, which these functions fill.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.backend.hosts.threads import ThreadProgram
from dpsim.backend.journal.injection import RankDied, RankHung
from dpsim.backend.journal.own_raise import breaks_off_rank, left_debugger
from dpsim.backend.journal.trouble import trouble
from dpsim.contract.events import IS_LATE, STARTS, kill_label, own_label
from dpsim.contract.program import Program
from dpsim.contract.registry import packages
from dpsim.contract.world import End, Kill, Lost
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Death
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.threads import SimThread


async def live(rank: SimRank, program: Program[Any], prepared: Any, ends: list[End]) -> None:
    """Runs the main thread of one rank: its program, then an implied device synchronize."""
    journal, host, device = rank.journal, rank.host_thread, rank.own_device
    if host.killed:
        return
    late_ns = journal.start_delay()
    if late_ns:
        await _Await(host.pause(late_ns, own_label(rank.rank, STARTS)))
    try:
        await (program.serve(rank, prepared) if rank.name else program.run(rank, prepared))
        if rank.threads is not None:
            lost = await _Await(rank.threads.all_over())
            if lost is not None:
                ends[rank.rank] = "raised"
                lost.host.own_journal.raised(lost.error, packages())
                rank.stop()
                return
        host.drains = True
        for chain in device.chains.values():
            end = chain.end(host)
            if end is not None:
                await _Await(host.wait_for_device(end))
        if host.gate is not None:
            await _Await(host.get_through())
        if host.lives is not None:
            await _Await(host.settle())
    except RankDied:
        with suppress(KernelError):
            await _Await(host.get_through())
        ends[rank.rank] = "died"
        rank.stop()
        device.die(host)
        return
    except RankHung:
        rank.hang()
        await _Await(_without_end(host))
    except BaseException as error:  # a program that leaves its process ends this rank only
        if not breaks_off_rank(error):
            if isinstance(error, KeyboardInterrupt) or left_debugger(error):
                # SimPy would let the other ranks run first, perhaps without end
                raise host.machine.halt(error) from error
            raise
        raised = error
        if rank.threads is not None:
            rank.threads.main.breaks()
        try:
            await _Await(host.get_through())
        except KernelError as earlier:
            raised = earlier
        ends[rank.rank] = "raised"
        journal.raised(raised, packages())
        rank.stop()
        lacked = trouble(raised)
        if lacked:
            raise host.machine.halt(Lost(f"{lacked} (rank {rank.rank} in step {journal.step})")) from raised
        return
    ends[rank.rank] = "finished"
    journal.finished()
    rank.gone()


async def live_beside(rank: SimRank, thread: SimThread, program: ThreadProgram, ends: list[End]) -> None:
    """Runs another host thread of a rank."""
    host, journal = thread.host, thread.host.own_journal
    error: BaseException | None = None
    host.starts()
    late_ns = journal.start_delay()
    if late_ns:
        await _Await(host.pause(late_ns, own_label(host.word, IS_LATE)))
    try:
        await program(rank)
    except RankDied:
        ends[rank.rank] = "died"
        rank.stop()
        rank.own_device.die(host)
        return
    except RankHung:
        rank.hang()
        await _Await(_without_end(host))
    except BaseException as raised:
        if not breaks_off_rank(raised):
            if isinstance(raised, KeyboardInterrupt) or left_debugger(raised):
                raise host.machine.halt(raised) from raised
            raise
        error = raised
        lacked = trouble(raised)
        if lacked:
            raise host.machine.halt(Lost(f"{lacked} (rank {rank.rank} in step {journal.step})")) from raised
    thread.error, thread.message = error, journal.ended(error, packages())
    thread.end(host)


def kill(machine: Machine, rank: SimRank, kill: Kill, ends: list[End]) -> None:
    """Submits the death of a rank: in timed mode at a time, in untimed mode whenever the strategy picks it."""
    number = rank.rank

    def effect() -> None:
        if ends[number] == "blocked":
            ends[number] = "died"
            rank.died(op)

    # At least 1 ns later: the call in which the host is now has no record yet.
    ns = kill.ns if kill.at is None else max(kill.ns, 1)
    op = Death(kill_label(number), ns, effect, machine.end_of(number, sure=False))
    op.strikes = lambda: ends[number] == "blocked"
    if not machine.timed:
        rank.host_thread.before(op)
    machine.submit(op)


def _without_end(host: Host) -> Generator[Any, Any, None]:
    yield host.machine.env.waiter()  # the machine never resumes it


class _Await:
    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    def __await__(self) -> Any:
        return self._outcome
