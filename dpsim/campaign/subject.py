"""A program on a world, as exploration runs it: once under each schedule, judged by all checks.

    subject = Subject(world, program)                       # or Subject.of(scenario)
    run, findings = subject.run(strategy)
    problem(findings[0], run)                               # as exploration sees it

The simulation runs without time. If the checks look for races, a search does not reorder accesses of memory. The
reason: in a run without a race, their order does not change the result, and a run with a race is a failure already. If
a scenario switches the race check off, a search reorders accesses, and a race shows as a wrong result.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from dpsim.alone.messages import Module
from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.checks.expected import HELD, Expected
from dpsim.checks.finding import Finding, can_match
from dpsim.checks.judge import judge, switch_off
from dpsim.contract import registry
from dpsim.contract.program import Arguments, Program
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Lost, Progress, Run, World
from dpsim.explore import LONGEST, Planted, Problem
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend, SimRun

DELAY = "delay"

AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True)
class Origin:
    """What another process makes the program of: its protocol, the arguments, and the environment before any run."""

    protocol: str
    args: Any
    environment: dict[str, str] = field(repr=False)  # it may hold secrets, and a repr ends in logs

    def modules(self) -> list[Module]:
        """The modules that register the protocol, its variant and its forms."""
        owners: list[type[Any]] = [registry.protocol(self.protocol).program]
        variant = self.args.variant if isinstance(self.args, Arguments) else None
        owners += [] if variant is None else [registry.variant(variant).make]
        names = [*(owner.__module__ for owner in owners), *registry.modules_of_forms()]
        files = {name: getattr(sys.modules.get(name), "__file__", None) or "" for name in names}
        return [Module(name, file) for name, file in files.items()]


@dataclass(frozen=True)
class Subject:
    """A program on a world. `switched_off`: suppressed classes of findings. `name`: for messages. `longest`: runs are
    cut off after this number of steps. `expected`: what has to come of it. `make`: gives the program and
    what it prepared anew; without it they are copied. `repeats`: some runs are made again (`dpsim.campaign.repeats`).
    `origin`: of a program that another process can make, too; `alone`: its ranks run alone whatever that costs
    (`dpsim.campaign.lone_ranks`).
    """

    world: World
    program: Program[Any]
    prepared: Any = None
    switched_off: tuple[str, ...] = ()
    name: str = "this world"
    longest: int = LONGEST
    expected: Expected = HELD
    make: Callable[[], tuple[Program[Any], Any]] | None = None
    repeats: bool = True
    origin: Origin | None = None
    alone: bool = False

    @staticmethod
    def of(scenario: Scenario, base: Path | None = None) -> Subject:
        """A scenario's. Raises ScenarioError for what cannot be read or run."""
        environment = dict(os.environ)
        program, args, prepared = prepare(scenario, base)
        off, expected = tuple(scenario.checks.switched_off), scenario.expected_of_all

        def make() -> tuple[Program[Any], Any]:
            program, _, prepared = prepare(scenario, base)
            return program, prepared

        return Subject(
            world(scenario, program, prepared),
            program,
            prepared,
            off,
            scenario.name,
            expected=expected,
            make=make,
            origin=Origin(scenario.protocol.name, args, environment),
        )

    def fresh(self) -> Callable[[], tuple[Program[Any], Any]]:
        """Makes instances of the program that no run has touched since now. What cannot be copied is shared."""
        if self.make is not None:
            return self.make
        kept = _copied((self.program, self.prepared))
        return lambda: _copied(kept)

    @property
    def probes(self) -> tuple[str, ...]:
        """Labels that some schedule of this world should reach."""
        return self.program.reachable(self.prepared)

    def run(
        self, strategy: Strategy, tick: Progress | None = None, sharing: bool = False
    ) -> tuple[SimRun, list[Finding]]:
        """One run, judged. `tick` is called now and then within it. `sharing`: what host threads share is watched, too.
        Raises Lost.
        """
        run = kept(self.backend(strategy, sharing).run_program(self.world, self.program, self.prepared, tick))
        findings = judge(self.world, run, self.switched_off)
        return run, switch_off(findings, self.switched_off)[0] if self.switched_off else findings

    def backend(self, strategy: Strategy, sharing: bool = False) -> SimBackend:
        """The simulation without time."""
        races = ("RACE:BUFFER", "RACE:REUSED_IN_FLIGHT")
        memory = any(can_match(race, off) for race in races for off in self.switched_off)
        return SimBackend(choose=strategy, memory=memory, sharing=sharing)


def kept(run: AnyRun) -> AnyRun:
    """The run. Raises Lost, with where every rank stood, if the machine took something away from it."""
    if run.lost:
        raise Lost(f"{run.lost}\n{whereabouts(run.journals)}")
    return run


def planted(world: World) -> dict[Planted, World]:
    """Each fault, kill, message and delay of a world, and the world with it alone."""
    if not (world.faults or world.kills or world.delays or world.messages):
        return {}
    nothing = replace(world, faults=(), kills=(), delays=(), messages=())
    faults = {(one.describe(), one.rank, str(one.at)): replace(nothing, faults=(one,)) for one in world.faults}
    faults |= {("kill", one.rank, str(one.at)): replace(nothing, kills=(one,)) for one in world.kills}
    faults |= {
        (f"{one.describe()} of {one.to}", one.by, str(one.at)): replace(nothing, messages=(one,))
        for one in world.messages
    }
    return faults | {(DELAY, one.rank, str(one.at)): replace(nothing, delays=(one,)) for one in world.delays}


def _copied(program: tuple[Program[Any], Any]) -> tuple[Program[Any], Any]:
    try:
        return copy.deepcopy(program)
    except Exception:  # a lock, an iterator: whatever a program may hold
        return program


def problem(finding: Finding, run: SimRun) -> Problem:
    """A finding as exploration sees it. A hang depends on everything, all else on what the ranks knew in its step."""
    if finding.klass.startswith(("HANG", "DEATH")):
        return Problem(finding.klass, identity(finding))
    causes = 0
    for learned in run.learned:
        causes |= next((known for step, known in reversed(learned) if step <= finding.position[0]), 0)
    return Problem(finding.klass, identity(finding), causes)


def identity(finding: Finding) -> str:
    """Equal for the same mistake in two schedules: class, and who did it where; steps and ordinals are left out."""
    culprit = finding.culprit
    return finding.klass if culprit is None else f"{finding.klass} {culprit.who} {culprit.site}"
