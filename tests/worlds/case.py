"""A world to explore: a small protocol, the machine it runs on, and what is wrong with it.

Each family of worlds has its own file with a healthy program and a variant in which one small method is another. A
`Case` puts one of them on a `World`; `cases.CASES` lists all by name. What a schedule of it shows is read by
`dpsim.checks.judge`, as everywhere: `faults` are the classes of the findings that the case does not tolerate.

    case = dp_wave.case(ranks=2, steps=2, bug=True)
    run = execute(case, strategy)
    faults(case, run)              # ["HANG:COLLECTIVE:MISSING_RANK"], under some schedules

`unrelated` puts ranks beside a case that send each other messages and poll and have nothing to do with it. No two of
their ops conflict, so the case has as many classes as before, and far more schedules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpsim.checks.finding import matches
from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Run, World
from dpsim.sim.backend import SimBackend


@dataclass(frozen=True)
class Case:
    """A program on a world.

    `bug`: class pattern of a finding that some schedules show, or all of them where `always`; None: no schedule has a
    finding. `tolerated`: findings that are no fault here, as that a rank died which may be killed. `memory`: accesses
    of device memory are choices too.
    """

    name: str
    world: World
    program: Program[Any]
    args: Any = None
    bug: str | None = None
    always: bool = False
    tolerated: tuple[str, ...] = ()
    memory: bool = False


def execute(case: Case, strategy: Strategy) -> Run:
    """One run under the strategy."""
    return SimBackend(choose=strategy, memory=case.memory).run_program(case.world, case.program, case.args)


def faults(case: Case, run: Run) -> list[str]:
    """Classes of what does not hold, the primary one first."""
    classes = [finding.klass for finding in judge(case.world, run)]
    return [klass for klass in classes if not any(matches(klass, pattern) for pattern in case.tolerated)]


def unrelated(case: Case, ranks: int = 4, rounds: int = 1) -> Case:
    """The case, and `ranks` more that have nothing to do with it."""
    size = case.world.size
    world = replace(case.world, size=size + ranks)
    return replace(case, name=f"{case.name} +{ranks}", world=world, program=_Beside(case.program, size, ranks, rounds))


class _Beside(Program[Any]):
    """A program on the first ranks. The others pass messages round, each of them `rounds` times."""

    def __init__(self, program: Program[Any], first: int, ranks: int, rounds: int) -> None:
        self.program = program
        self.first = first
        self.members = ranks
        self.rounds = rounds

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank < self.first:
            await self.program.run(rank, prepared)
            return
        following = self.first + (rank.rank + 1 - self.first) % self.members
        for number in range(self.rounds):
            await rank.mailbox("nothing").poll("unrelated.poll")
            rank.send(following, "ring", number, "unrelated.send")
            await rank.mailbox("ring").get("unrelated.get")
