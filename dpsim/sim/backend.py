"""The simulation as a backend: all ranks in one process, on one machine, on SimPy's clock or under a chooser of
schedules.

    >>> from dpsim.contract.world import World
    >>> SimBackend().unavailable(4096) is None
    True

The backend makes the parts of a run (`dpsim.sim.wiring`) and lets it continue until nothing can move any more. Then it
says which actors ended, and where the others stand. A `SimRun` has all that is known of a run. The backend itself holds
only how to run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
import simpy

from dpsim.backend.journal.call_site import chains
from dpsim.backend.journal.own_raise import DebuggerQuit, left_debugger
from dpsim.backend.journal.trouble import trouble
from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.contract.gates import Address
from dpsim.contract.program import Program, refuse_no_program
from dpsim.contract.registry import packages
from dpsim.contract.registry import prepared as prepare
from dpsim.contract.rules.shared_state import refuse_changes, state_of
from dpsim.contract.rules.unordered import Unordered
from dpsim.contract.schedule import ByLabel, Choose, OutOfTime, RunStopped, Strategy
from dpsim.contract.world import End, Lost, Progress, Run, World
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.graph.costs import REFERENCE, Costs
from dpsim.sim.graph.environment import rare_collections
from dpsim.sim.graph.machine import Machine
from dpsim.sim.hosts.exits import NoExits
from dpsim.sim.hosts.overtime import Overtime
from dpsim.sim.hosts.progress import Overdue
from dpsim.sim.hosts.variables import VARIABLES, put_back
from dpsim.sim.hosts.watch import Endless
from dpsim.sim.wiring import Wiring


@dataclass
class SimRun(Run):
    """A run of the simulation, and what only the simulation knows of one.

    `order`: labels of the visible ops, as they fired; a timed run has them where `keep_order` asks for it. `learned`:
    of an untimed run, for each rank (its step, the causes that its host had learned by then), in order. `timeouts`:
    whether any actor waited with a time-out. `unordered`: of each rank that was watched the first pair of uses.
    `order_of_sums`: whether a floating-point sum depends on it. `variables`: the names in `os.environ` that it changed
    (`dpsim.sim.hosts.variables`). `early`: sends and broadcasts of hosts that were over before their peers came; of an
    untimed run. A run that a `RunStopped` ends is the `run` of that exception, as far as it went.
    """

    order: list[str] = field(default_factory=list)
    learned: list[list[tuple[int, int]]] = field(default_factory=list)
    timeouts: bool = False
    unordered: list[Unordered] = field(default_factory=list)
    order_of_sums: bool = False
    variables: tuple[str, ...] = ()
    early: list[Address] = field(default_factory=list)


class SimBackend:
    """Runs a program on a simulated world. A hang is seen exactly: nothing can move any more, and an actor has not
    ended.

    `costs`: of the timed mode. `choose`: the untimed mode, under this strategy. `keep_order`: note in `SimRun.order`
    how visible ops fired, so that a timed run can be repeated untimed. `expandable`: the allocator's segments grow.
    `memory`: accesses to the same device memory are a choice too. A search for races does not need it: a run without a
    race computes the same in any order. `sharing`: untimed, watch what host threads share, where the program
    promises that flags order it (`SimRun.unordered`).
    """

    name = "sim"

    def __init__(
        self,
        costs: Costs = REFERENCE,
        choose: Strategy | Choose | None = None,
        keep_order: bool = False,
        expandable: bool = False,
        memory: bool = True,
        sharing: bool = False,
    ) -> None:
        self.costs = costs
        self.strategy = choose if choose is None or isinstance(choose, Strategy) else ByLabel(choose)
        self.keep_order = keep_order
        self.expandable = expandable
        self.memory = memory
        self.sharing = sharing

    def unavailable(self, size: int) -> str | None:
        return None

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        entry, prepared = prepare(program, args)
        before = state_of(entry, prepared)
        run = self.run_program(world, entry, prepared, progress)
        refuse_changes(entry, prepared, before)
        return run

    def run_program(
        self, world: World, program: Program[Any], prepared: Any, progress: Progress | None = None
    ) -> SimRun:
        """As `run`, for a program that is at hand."""
        if not isinstance(program, Program):
            refuse_no_program(program)
        machine = self._machine(world, program)
        wiring = Wiring(machine, world, program, self.costs, self.expandable, progress, self.sharing)
        run = SimRun(
            backend=self.name,
            journals=wiring.journals,
            ends=wiring.ends,
            waited_ns=wiring.waited,
            elapsed_ns=0,
            versions={"simpy": simpy.__version__, "numpy": numpy.__version__},
            services=world.services,
            taken=wiring.boxes.taken,
            order=machine.order,
            learned=[host.learned for host in wiring.hosts],
            early=machine.early,
            chains=chains,
        )
        wiring.begin(program, prepared)
        before = VARIABLES.copy()
        try:
            _go_on(wiring, run)
        except RunStopped as stopped:
            stopped.run = run
            raise
        finally:
            run.timeouts, run.order_of_sums = machine.alarms.awaited, machine.order_of_sums
            run.unordered = [one.found for one in wiring.watches if one is not None and one.found is not None]
            run.undefined, run.steps_set = wiring.undefined, wiring.steps_set
            wiring.take_down()
            if before != VARIABLES:
                run.variables = put_back(before)
        _judge(wiring, run)
        return run

    def _machine(self, world: World, program: Program[Any]) -> Machine:
        dying = [fault.rank for fault in world.faults if fault.kind == "die"]
        make = AbortingMachine if program.aborts else Machine
        machine = make(self.strategy, world.kills, self.keep_order, self.memory, dying)
        machine.alarms.most = world.early_timeouts
        return machine

    def close(self) -> None:
        pass


def _go_on(wiring: Wiring, run: SimRun) -> None:
    """Until nothing can move any more, or the run is lost or has no end."""
    try:
        with rare_collections(), NoExits():
            wiring.machine.run(wiring.tick)
    except Endless as error:
        run.endless, run.overdue = error.ranks, isinstance(error, Overdue)
    except Overtime as error:
        raise OutOfTime(error.where()) from None
    except Lost as error:
        run.lost = str(error)
    except KeyboardInterrupt as error:
        error.add_note(whereabouts(run.journals))
        raise
    except (MemoryError, OSError) as error:  # of the machine's own
        run.lost = trouble(error)
        if not run.lost:
            raise
    except Exception as error:
        if not left_debugger(error):
            raise
        quits = DebuggerQuit()
        quits.add_note(whereabouts(run.journals))
        raise quits from None


def _judge(wiring: Wiring, run: SimRun) -> None:
    """Say which actors have ended all the same, where the others stand, and how that was seen."""
    ends = run.ends
    for rank in wiring.ranks:
        if not wiring.idle(rank) or ends[rank.rank] != "blocked":
            continue
        failed = wiring.failed(rank)
        if failed is not None:  # the rank's program waited for its device no more
            ends[rank.rank] = "raised"
            rank.journal.raised(failed, packages())
            run.lost = run.lost or trouble(failed)
        elif rank.own_device.is_done():
            ends[rank.rank] = "finished"  # to stand in an idle get is to have ended well
    if not run.endless:
        run.standing = tuple(rank.rank for rank in wiring.ranks if ends[rank.rank] == "blocked" and rank.cut())
        run.occupied = tuple(full for one in wiring.slots if (full := one.full()) is not None)
    if wiring.record_times:
        run.times = tuple(one.found() for one in wiring.record_times)
    wiring.forget()
    run.elapsed_ns = wiring.machine.now
    run.observed = f"lost: {run.lost}" if run.lost else _observed(ends, run.endless, run.overdue)


def _observed(ends: list[End], endless: tuple[int, ...], overdue: bool) -> str:
    if overdue:
        return "no end within the bound on ops"
    if endless:
        return "nothing but repetition"
    return "" if all(end == "finished" for end in ends) else "nothing can move any more"
