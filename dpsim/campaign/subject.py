"""A program on a world, as exploration runs it: once under each schedule, judged by all checks.

    subject = Subject(world, program)                       # or Subject.of(scenario)
    run, findings = subject.run(strategy)
    found = search_subject(subject, search("dpor"), schedules=1000, stop_at_first=True)
    found.summary()             # "proven: holds in every schedule of this world; 9 schedules (9 classes)"

The simulation runs without time. Where races are looked for, accesses of memory are no choices: a run without a race
computes the same whatever the order, and a run with one is a failure already. With the races switched off they are
choices, and a race shows as what it does.

What a search notes of a subject beside its failures are the probes that were reached, and what is planted in the world
and did not happen in a run that came to its end (`Exploration.injected`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpsim.checks.expected import HELD, Expected
from dpsim.checks.finding import Finding, can_match
from dpsim.checks.judge import judge, switch_off
from dpsim.diagnose.injected import never_applied
from dpsim.explore import LONGEST, Budget, Exploration, Planted, Problem, Search, explore
from dpsim.ops import KIND, SITE
from dpsim.program import Program
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.schedule import Strategy
from dpsim.sim.backend import SimBackend
from dpsim.sim.environment import rare_collections
from dpsim.world import Run, World

DELAY = "delay"


@dataclass(frozen=True)
class Subject:
    """A program on a world. `switched_off`: classes of findings that nobody wants to hear of. `name`: for messages.
    `longest`: runs are cut off after so many steps. `expected`: what has to come of it.
    """

    world: World
    program: Program[Any]
    prepared: Any = None
    switched_off: tuple[str, ...] = ()
    name: str = "this world"
    longest: int = LONGEST
    expected: Expected = HELD

    @staticmethod
    def of(scenario: Scenario, base: Path | None = None) -> Subject:
        """A scenario's. Raises ScenarioError for what cannot be read or run."""
        program, _, prepared = prepare(scenario, base)
        off, expected = tuple(scenario.checks.switched_off), scenario.expect.expected()
        return Subject(world(scenario), program, prepared, off, scenario.name, expected=expected)

    @property
    def probes(self) -> tuple[str, ...]:
        """Labels that some schedule of this world should come to."""
        return self.program.reachable(self.prepared)

    def run(self, strategy: Strategy) -> tuple[Run, list[Finding]]:
        """One run, judged."""
        return self.on(self.machine(), strategy)

    def machine(self) -> SimBackend:
        """A simulation without time, for many runs."""
        races = ("RACE:BUFFER", "RACE:REUSED_IN_FLIGHT")
        return SimBackend(memory=any(can_match(race, off) for race in races for off in self.switched_off))

    def on(self, machine: SimBackend, strategy: Strategy) -> tuple[Run, list[Finding]]:
        machine.strategy = strategy
        run = machine.run_program(self.world, self.program, self.prepared)
        findings = judge(self.world, run, self.switched_off)
        return run, switch_off(findings, self.switched_off)[0] if self.switched_off else findings


def search_subject(
    subject: Subject,
    chosen: Search,
    *,
    schedules: int,
    stop_at_first: bool,
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[Exploration], None] | None = None,
) -> Exploration:
    """The search alone: failures are not confirmed."""
    machine = subject.machine()
    probes: Counter[str] = Counter()
    injected: dict[Planted, str] = {}
    waiting = planted(subject.world)

    def once(asked: Strategy) -> list[Problem]:
        run, findings = subject.on(machine, asked)
        if subject.program.probes:
            probes.update({raw[SITE] for journal in run.journals for raw in journal if raw[KIND] == "probe"})
        for one, alone in list(waiting.items()):
            why = never_applied(alone, run)
            if not why:
                injected[one] = ""
                del waiting[one]
            elif run.finished:  # one that stopped early may not have come to it
                injected.setdefault(one, why[0])
        return [problem(findings[0], machine)] if findings else []

    with rare_collections():  # around all runs: after each it would look through what the run has left
        found = explore(once, chosen, Budget(schedules, stop_at_first, expired), progress)
    found.probes = probes
    found.injected.update(injected)
    return found


def planted(world: World) -> dict[Planted, World]:
    """Each fault and each delay of a world, and the world with it alone."""
    nothing = replace(world, faults=(), delays=())
    faults = {(one.describe(), one.rank, str(one.at)): replace(nothing, faults=(one,)) for one in world.faults}
    return faults | {(DELAY, one.rank, str(one.at)): replace(nothing, delays=(one,)) for one in world.delays}


def problem(finding: Finding, machine: SimBackend) -> Problem:
    """A finding as exploration sees it. A hang depends on everything, all else on what the ranks knew in its step."""
    if finding.klass.startswith(("HANG", "DEATH")):
        return Problem(finding.klass, identity(finding))
    causes = 0
    for learned in machine.learned:
        causes |= next((known for step, known in reversed(learned) if step <= finding.position[0]), 0)
    return Problem(finding.klass, identity(finding), causes)


def identity(finding: Finding) -> str:
    """Equal for the same mistake in two schedules: class, and who did it where; steps and ordinals are left out."""
    culprit = finding.culprit
    return finding.klass if culprit is None else f"{finding.klass} rank {culprit.rank} {culprit.site}"
