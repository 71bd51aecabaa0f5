"""Compares the interpreter of hosts with dpsim on one script.

    compare(script).difference      # "" or "missed" or "invented"

The two sets of outcomes are equal, with two exceptions. dpsim may miss an outcome if two times end at the same instant.
A script with both sleeps and time-outs has two bounds. dpsim must show the outcomes of exact sleeps. It may show those
of sleeps that end at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.backend import SimBackend
from tests.interpreter.hosts import follower
from tests.interpreter.hosts.interpreter import interpret
from tests.interpreter.hosts.language import timed_out, uses
from tests.interpreter.interpreter import Outcome
from tests.interpreter.language import Script
from tests.interpreter.machine import outcome_of, world_of_script

STATES, SCHEDULES = 500, 100


@dataclass(frozen=True)
class Compared:
    """`least`: what dpsim must show. `allowed`: what it may show. `seen`: what it shows. `known`: all searches ended
    within their limits. `tied`: an outcome may depend on the order of two times, so dpsim may miss it.
    """

    least: frozenset[Outcome] = frozenset()
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
        return "missed" if self.least - self.seen and not self.tied else ""


def compare(script: Script, states: int = STATES, schedules: int = SCHEDULES) -> Compared:
    most = interpret(script, states)
    both = uses(script, "sleep") and timed_out(script)
    least = interpret(script, states, exact=True) if both else most
    if not (least.complete and most.complete):
        return Compared()
    seen, runs, complete = explored(script, schedules)
    must, may = frozenset(least.outcomes), frozenset(least.outcomes | most.outcomes)
    return Compared(must, may, seen, complete, least.tied or most.tied, runs)


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
