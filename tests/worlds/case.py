"""The class of a case: a small program, the machine on which it runs, and the finding that its planted bug causes.

Each family of programs has its own file, with a healthy program and a variant that changes one small method. A `Case`
combines one of them with a `World` (its size, communicators, faults). `cases.CASES` lists all cases by name.
`dpsim.checks.judge` judges the run of each schedule; `faults` returns the classes of findings that the case does not
tolerate.

    case = dp_wave.case(ranks=2, steps=2, bug=True)
    run = execute(case, strategy)
    faults(case, run)              # ["HANG:COLLECTIVE:MISSING_RANK"], under some schedules

`unrelated` adds ranks to a case that send each other messages and poll. Their ops do not conflict with those of the
case or with each other. So the new case has as many classes of schedules as before, and far more schedules.
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

    `bug` is the class pattern of the finding that some schedules have; with `always`, all schedules have it. If `bug`
    is None, no schedule has a finding. `tolerated` are patterns of findings that are no bug here, such as the death of
    a rank that the world may kill. With `memory` the strategy also chooses the order of accesses to device memory.
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
    """Runs the case once under the strategy."""
    return SimBackend(choose=strategy, memory=case.memory).run_program(case.world, case.program, case.args)


def faults(case: Case, run: Run) -> list[str]:
    """Returns the classes of the findings that the case does not tolerate, the primary finding first."""
    classes = [finding.klass for finding in judge(case.world, run)]
    return [klass for klass in classes if not any(matches(klass, pattern) for pattern in case.tolerated)]


def unrelated(case: Case, ranks: int = 4, rounds: int = 1) -> Case:
    """Returns the case with `ranks` additional ranks that do not communicate with the others."""
    size = case.world.size
    world = replace(case.world, size=size + ranks)
    return replace(case, name=f"{case.name} +{ranks}", world=world, program=_Beside(case.program, size, ranks, rounds))


class _Beside(Program[Any]):
    """Runs a program on the first ranks. Each of the other ranks sends `rounds` messages round their ring."""

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
