"""Subject: a program in one world, which exploration runs without time, under many schedules. Checks judge each run.

    subject = Subject(world, program)                       # or Subject.of(scenario)
    run, findings = subject.run(strategy)
    problem(findings[0], run)                               # as exploration sees it

If the check for races is on, a search does not reorder accesses of memory. Without a race, their order does not change
the result, and a run with a race is a failure already. If a scenario switches this check off, it reorders them, and a
race shows as a wrong result.
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
from dpsim.checks.classes import class_and_detail
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


def search_path() -> tuple[str, ...]:
    """Returns `sys.path` without the empty entry, which stands for the working directory."""
    return tuple(entry or os.getcwd() for entry in sys.path)


@dataclass(frozen=True)
class Origin:
    """What another process makes the program from: protocol, arguments, environment, folder and `sys.path`."""

    protocol: str
    args: Any
    environment: dict[str, str] = field(repr=False)  # it may contain secrets, which must not get into logs
    folder: str = "."
    path: tuple[str, ...] = field(default_factory=search_path)

    def modules(self) -> list[Module]:
        """Returns the modules that register the protocol, its variant and its forms."""
        owners: list[type[Any]] = [registry.protocol(self.protocol).program]
        variant = self.args.variant if isinstance(self.args, Arguments) else None
        owners += [] if variant is None else [registry.variant(variant).make]
        names = [*(owner.__module__ for owner in owners), *registry.modules_of_forms()]
        files = {name: getattr(sys.modules.get(name), "__file__", None) or "" for name in names}
        return [Module(name, file) for name, file in files.items()]


@dataclass(frozen=True)
class Subject:
    """A program in a world. `switched_off`: suppressed classes of findings. `name`: for messages. `longest`: the most
    steps of a run. `make`: makes program and `prepared` anew; without it they are copied. `repeats`: repeat some runs.
    `origin`: for a program that another process can make. `alone`: run its ranks alone at any cost. `outcomes`: a
    search collects what its ranks learn (`dpsim.campaign.learned`).
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
    outcomes: bool = False

    @staticmethod
    def of(scenario: Scenario, base: Path | None = None) -> Subject:
        """Returns the subject of a scenario. Raises ScenarioError for one that cannot be read or run."""
        environment, folder = dict(os.environ), os.getcwd()
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
            origin=Origin(scenario.protocol.name, args, environment, folder),
        )

    def fresh(self) -> Callable[[], tuple[Program[Any], Any]]:
        """Returns a function that makes unused instances of the program. They share objects that cannot be copied."""
        if self.make is not None:
            return self.make
        kept = _copied((self.program, self.prepared))
        return lambda: _copied(kept)

    @property
    def runs_alone(self) -> bool:
        """Whether each rank can run again alone: not in its own process already, and made from a scenario."""
        return not self.program.apart and self.origin is not None and self.make is not None

    @property
    def probes(self) -> tuple[str, ...]:
        """The labels that some schedule of this world should reach."""
        return self.program.reachable(self.prepared)

    def run(
        self, strategy: Strategy, tick: Progress | None = None, sharing: bool = False
    ) -> tuple[SimRun, list[Finding]]:
        """Makes one run and judges it. `sharing`: watches objects that host threads share. Raises Lost."""
        run = kept(self.backend(strategy, sharing).run_program(self.world, self.program, self.prepared, tick))
        findings = judge(self.world, run, self.switched_off)
        return run, switch_off(findings, self.switched_off)[0] if self.switched_off else findings

    def backend(self, strategy: Strategy, sharing: bool = False, elsewhere: bool = False) -> SimBackend:
        """Returns the simulation without time. `elsewhere`: with other clocks and random numbers."""
        races = ("RACE:BUFFER", "RACE:REUSED_IN_FLIGHT")
        memory = any(can_match(race, off) for race in races for off in self.switched_off)
        return SimBackend(choose=strategy, memory=memory, sharing=sharing, elsewhere=elsewhere)


def kept(run: AnyRun) -> AnyRun:
    """Returns the run. Raises Lost, with the place of every rank, if the machine could not finish it."""
    if run.lost:
        raise Lost(f"{run.lost}\n{whereabouts(run.journals, services=run.services)}")
    return run


def planted(world: World) -> dict[Planted, World]:
    """Returns each fault, kill, message and delay of a world, with a world that has only this one."""
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
    except Exception:  # the program may contain a lock, an iterator or the like
        return program


def problem(finding: Finding, run: SimRun) -> Problem:
    """Returns a finding for exploration. A hang may have any cause, others what ranks knew in their step."""
    if finding.klass.startswith(("HANG", "DEATH")):
        return Problem(finding.klass, identity(finding))
    causes = 0
    for learned in run.learned:
        causes |= next((known for step, known in reversed(learned) if step <= finding.position[0]), 0)
    return Problem(finding.klass, identity(finding), causes)


def identity(finding: Finding) -> str:
    """Returns class, culprit and site in a text, which is equal for the same mistake in two schedules."""
    klass, culprit = class_and_detail(finding.klass)[0], finding.culprit
    return klass if culprit is None else f"{klass} {culprit.who} {culprit.site}"
