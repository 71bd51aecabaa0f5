"""The simulation as a backend: all ranks in one process, on one machine, on SimPy's clock.

>>> from dpsim.world import World
>>> SimBackend().unavailable(4096) is None
True
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy
import simpy

from dpsim.journal import Journal, RankDied
from dpsim.ops import RawRecord
from dpsim.registry import Program, protocol
from dpsim.sim.costs import REFERENCE, Costs
from dpsim.sim.machine import Machine, Op
from dpsim.sim.rank import Group, SimRank
from dpsim.world import End, Progress, Run, World

PROGRESS_EVERY = 256


class SimBackend:
    """Runs a program on a simulated world. A hang is seen exactly: nothing can move any more and somebody has not
    ended.
    """

    name = "sim"

    def __init__(self, costs: Costs = REFERENCE) -> None:
        self.costs = costs

    def unavailable(self, size: int) -> str | None:
        return None

    def run(self, world: World, program: str, args: Mapping[str, Any], progress: Progress | None = None) -> Run:
        entry = protocol(program).program()
        return self.run_program(world, entry, entry.prepare(args), progress)

    def run_program(self, world: World, program: Program, prepared: Any, progress: Progress | None = None) -> Run:
        """As `run`, for a program that is at hand."""
        machine = Machine()
        groups = [Group(spec, machine, self.costs) for spec in world.communicators]
        journals: list[list[RawRecord]] = [[] for _ in range(world.size)]
        ranks = [
            SimRank(Journal(rank, world, journals[rank].append), machine, self.costs, groups)
            for rank in range(world.size)
        ]
        ends: list[End] = ["blocked"] * world.size
        hosts = [_host(rank, program, prepared, ends) for rank in ranks]
        if progress is not None:
            _report(machine, ranks[0], progress)
        for host in hosts:
            machine.host(host)
        machine.run()
        for host in hosts:
            host.close()
        return Run(
            backend=self.name,
            journals=journals,
            ends=ends,
            waited_ns=[rank.waited_ns for rank in ranks],
            elapsed_ns=machine.now,
            observed="" if all(end == "finished" for end in ends) else "nothing can move any more",
            versions={"simpy": simpy.__version__, "numpy": numpy.__version__},
        )

    def close(self) -> None:
        pass


async def _host(rank: SimRank, program: Program, prepared: Any, ends: list[End]) -> None:
    """The life of one rank: its program, then an implied device synchronise."""
    journal = rank.journal
    late_ns = journal.start_delay()
    if late_ns:
        late = Op("delay", late_ns)
        rank.machine.submit(late)
        await _Wait(rank.machine.wait(late))
    try:
        await program.run(rank, prepared)
        for stream in rank.streams.values():
            if stream.tail is not None:
                await _Wait(rank.wait_for_device(stream.tail))
    except RankDied:
        ends[rank.rank] = "died"
        rank.lose_device()
        return
    except Exception as error:
        ends[rank.rank] = "raised"
        journal.raised(error)
        return
    ends[rank.rank] = "finished"
    journal.finished()


class _Wait:
    """Await a generator of the machine, without a record."""

    def __init__(self, outcome: Generator[Any, Any, Any]) -> None:
        self._outcome = outcome

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._outcome


def _report(machine: Machine, rank: SimRank, progress: Progress) -> None:
    """Call `progress` now and then, by looking in from the event loop."""
    step = machine.env.step
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1
        if not count % PROGRESS_EVERY:
            progress(rank.step)
        step()

    machine.env.step = counted  # type: ignore[method-assign]
