"""Compares the interpreter of hosts with dpsim on one script.

    compare(script).difference      # "" or "missed" or "invented"

The two sets of outcomes are equal. For a script with time-outs, the interpreter's set is the union of two readings of
time, `patient` and `timed` (see `tests.interpreter.clock`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.backend import SimBackend
from tests.interpreter.clock import PATIENT, TIMED
from tests.interpreter.hosts import follower
from tests.interpreter.hosts.interpreter import Outcome, interpret
from tests.interpreter.hosts.language import timed_out, uses
from tests.interpreter.language import Script
from tests.interpreter.machine import outcome_of, world_of_script

STATES, SCHEDULES = 500, 100


@dataclass(frozen=True)
class Compared:
    """`allowed`: what the contract allows. `seen`: what dpsim shows. `known`: both searches ended within their limits.
    `tied`: an outcome may depend on the order of two times, so dpsim may miss it.
    """

    allowed: frozenset[Outcome] = frozenset()
    seen: frozenset[Outcome] = frozenset()
    known: bool = False
    tied: bool = False
    schedules: int = 0

    @property
    def difference(self) -> str:
        if not self.known:
            return ""
        if self.seen - self.allowed:
            return "invented"
        return "missed" if self.allowed - self.seen and not self.tied else ""


def allowed(script: Script, states: int = STATES) -> Compared:
    """Returns what the contract allows, without a run of dpsim."""
    outcomes, tied = frozenset[Outcome](), False
    for mode in (PATIENT, TIMED) if timed_out(script) else (PATIENT,):
        read = interpret(script, states, mode)
        if not read.complete:
            return Compared()
        outcomes, tied = outcomes | read.outcomes, tied or read.tied
    return Compared(outcomes, known=True, tied=tied)


def compare(script: Script, states: int = STATES, schedules: int = SCHEDULES) -> Compared:
    compared = allowed(script, states)
    if not compared.known:
        return compared
    seen, runs, complete = explored(script, schedules)
    return replace(compared, seen=seen, known=complete, schedules=runs)


def explored(script: Script, schedules: int) -> tuple[frozenset[Outcome], int, bool]:
    """Returns the outcomes that dpsim shows, the number of schedules, and whether these are all."""
    strategy, world, seen = Dpor(), world_of_script(script), set[Outcome]()
    program = {
        (False, False): follower.Hosts,
        (True, False): follower.Threads,
        (False, True): follower.Aborts,
        (True, True): follower.All,
    }[uses(script, "spawn"), uses(script, "abort")]
    for number in range(schedules):
        if not strategy.begin():
            return frozenset(seen), number, strategy.exhausted
        try:
            run = SimBackend(choose=strategy, memory=False).run_program(world, program(), script)
        except CutOff:
            strategy.end(whole=False)
            continue
        seen.add(outcome_of(run, script))
        strategy.end(whole=True)
    return frozenset(seen), schedules, False
