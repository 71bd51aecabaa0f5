"""The simulation as a backend: all ranks run in one process. SimPy's clock or a search strategy decides the order of
their operations.

    >>> from dpsim.contract.world import World
    >>> SimBackend().unavailable(4096) is None
    True

The backend builds the parts of a run (`dpsim.sim.wiring`) and runs them until no operation can happen any more. A
`SimRun` contains all facts about the run; a `SimBackend` object contains only settings.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import starmap
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
from dpsim.sim.hosts.outside import Outside, Touch, UnseededDraw
from dpsim.sim.hosts.overtime import Overtime
from dpsim.sim.hosts.own_state import VARIABLES, put_back
from dpsim.sim.hosts.progress import Overdue
from dpsim.sim.hosts.watch import Endless
from dpsim.sim.wiring import Wiring


@dataclass
class SimRun(Run):
    """A run of the simulation, with facts that only the simulation can record.

    * `order`: the labels of all ops with a footprint, in the order in which they fired. A timed run has them only with
      `keep_order`.
    * `learned`: per rank, a list of (step, causes), one entry each time its host learned of more ops. Untimed runs
      only.
    * `timeouts`: the time-outs in ns with which ranks and services waited.
    * `unordered`: for each watched rank, the first pair of unordered uses of a shared Python variable.
    * `order_of_sums`: whether a floating-point sum depends on the order of its terms.
    * `touched`, `drawn`: what ranks touched besides the contract, and numbers that they drew without a seed
      (`dpsim.sim.hosts.outside`).
    * `variables`: the names in `os.environ` that the run changed (`dpsim.sim.hosts.own_state`).
    * `early`: the host sends and broadcasts that ended before their peers arrived. Untimed runs only.

    If a `RunStopped` ends the run early, the exception carries the incomplete `SimRun` in its field `run`.
    """

    order: list[str] = field(default_factory=list)
    learned: list[list[tuple[int, int]]] = field(default_factory=list)
    timeouts: frozenset[int] = frozenset()
    unordered: list[Unordered] = field(default_factory=list)
    order_of_sums: bool = False
    variables: tuple[str, ...] = ()
    touched: tuple[Touch, ...] = ()
    drawn: tuple[UnseededDraw, ...] = ()
    early: list[Address] = field(default_factory=list)


class SimBackend:
    """Runs a program on a simulated world. It detects a hang exactly: no operation can happen any more, and a rank or
    service has not ended.

    * `costs`: the durations of ops in timed mode.
    * `choose`: a strategy that picks the next op. With a strategy the run is untimed.
    * `keep_order`: a timed run records `SimRun.order`, so that an untimed run can repeat it.
    * `expandable`: the segments of the allocator grow, as torch's expandable segments do.
    * `memory`: the strategy also orders accesses to the same device memory. A search for races does not need this,
      since a run without a race computes the same result in any order.
    * `sharing`: watch Python variables that host threads share (`SimRun.unordered`). It applies to untimed runs of
      programs with `ordered_by_flags`.
    * `elsewhere`: clocks jump, and generators without a seed draw other numbers (`dpsim.sim.hosts.outside`).
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
        elsewhere: bool = False,
    ) -> None:
        self.costs = costs
        self.strategy = choose if choose is None or isinstance(choose, Strategy) else ByLabel(choose)
        self.keep_order = keep_order
        self.expandable = expandable
        self.memory = memory
        self.sharing = sharing
        self.elsewhere = elsewhere

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
        """As `run`, for a `Program` object. `prepared` is what `registry.prepared` returned."""
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
        outside = Outside(self.elsewhere, machine.touched)
        machine.env.state = outside.state
        try:
            listening: AbstractContextManager[Any] = nullcontext() if program.apart else outside
            with listening:
                wiring.begin(program, prepared)
                self._run_down(wiring, run)
        finally:
            run.touched, run.drawn = (*starmap(Touch, machine.touched),), (*outside.drawn,)
        _judge(wiring, run)
        return run

    def _run_down(self, wiring: Wiring, run: SimRun) -> None:
        machine, before = wiring.machine, VARIABLES.copy()
        try:
            _go_on(wiring, run)
        except RunStopped as stopped:
            stopped.run, stopped.fair = run, not wiring.held_back.any
            raise
        finally:
            run.timeouts, run.order_of_sums = frozenset(machine.alarms.awaited), machine.order_of_sums
            run.unordered = [one.found for one in wiring.watches if one is not None and one.found is not None]
            run.undefined, run.steps_set = wiring.undefined, wiring.steps_set
            wiring.take_down()
            if before != VARIABLES:
                run.variables = put_back(before)

    def _machine(self, world: World, program: Program[Any]) -> Machine:
        dying = [fault.rank for fault in world.faults if fault.kind == "die"]
        make = AbortingMachine if program.aborts else Machine
        machine = make(self.strategy, world.kills, self.keep_order, self.memory, dying)
        machine.alarms.most = world.early_timeouts
        return machine

    def close(self) -> None:
        pass


def _go_on(wiring: Wiring, run: SimRun) -> None:
    try:
        with rare_collections(), NoExits():
            wiring.machine.run(wiring.look)
    except Endless as error:
        run.endless, run.overdue = error.ranks, isinstance(error, Overdue)
    except Overtime as error:
        raise OutOfTime(error.where()) from None
    except Lost as error:
        run.lost = str(error)
    except KeyboardInterrupt as error:
        if not isinstance(error, DebuggerQuit):  # its user has just seen where the ranks are
            error.add_note(whereabouts(run.journals, services=run.services))
        raise
    except (MemoryError, OSError) as error:  # raised by the simulation itself, not by a program
        run.lost = trouble(error)
        if not run.lost:
            raise
    except (Exception, SystemExit) as error:
        if not left_debugger(error):
            raise
        raise DebuggerQuit(*error.args) from None


def _judge(wiring: Wiring, run: SimRun) -> None:
    ends = run.ends
    for rank in wiring.ranks:
        if not wiring.idle(rank) or ends[rank.rank] != "blocked":
            continue
        failed = wiring.failed(rank)
        if failed is not None:  # the program did not wait for its device again, so no rank saw the error
            ends[rank.rank] = "raised"
            rank.journal.raised(failed, packages())
            run.lost = run.lost or trouble(failed)
        elif rank.own_device.is_done():
            ends[rank.rank] = "finished"  # a rank that waits in an idle get at the end of a run has finished
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
        return "ranks repeat the same calls without end"
    return "" if all(end == "finished" for end in ends) else "no rank can make progress"
