"""Explore a world: every schedule of it, if they can be had, each judged by all checks.

    subject = Subject(world, program)                      # or Subject.of(scenario)
    found = explore_subject(subject)
    found.told()                # "proven: holds in every schedule of this world; 9 schedules (9 classes)"

    if found.failure:           # the first schedule that breaks something, in normal form
        print(found.report())

The simulation runs without time. Where races are looked for, accesses of memory are no choices: a run without a race
computes the same whatever the order, and a run with one is a failure already. With the races switched off they are
choices, and a race shows as what it does.

A failure is *confirmed* by one more run along its normal form. If that run does not show it, some op touches more than
it says (its footprint is wrong), and that is reported instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsim.checks.finding import Finding, can_match
from dpsim.checks.judge import judge, switch_off
from dpsim.explore import LONGEST, Budget, Exploration, Problem, Search, explore
from dpsim.program import Program
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.schedule import Strategy
from dpsim.sim.backend import SimBackend
from dpsim.sim.environment import rare_collections
from dpsim.world import Run, World


@dataclass(frozen=True)
class Subject:
    """A program on a world. `switched_off`: classes of findings that nobody wants to hear of. `name`: for messages.
    `longest`: runs are cut off after so many steps.
    """

    world: World
    program: Program
    prepared: Any = None
    switched_off: tuple[str, ...] = ()
    name: str = "this world"
    longest: int = LONGEST

    @staticmethod
    def of(scenario: Scenario, base: Path | None = None) -> Subject:
        """A scenario's. Raises ScenarioError for what cannot be read or run."""
        program, _, prepared = prepare(scenario, base)
        return Subject(world(scenario), program, prepared, tuple(scenario.checks.switched_off), scenario.name)

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

    def once(asked: Strategy) -> list[Problem]:
        run, findings = subject.on(machine, asked)
        if subject.program.probes:
            probes.update({raw[2] for journal in run.journals for raw in journal if raw[0] == "probe"})
        return [problem(findings[0], machine)] if findings else []

    with rare_collections():  # around all runs: after each it would look through what the run has left
        found = explore(once, chosen, Budget(schedules, stop_at_first, expired), progress)
    found.probes = probes
    return found


def problem(finding: Finding, machine: SimBackend) -> Problem:
    """A finding as exploration sees it. A hang depends on everything, all else on what the ranks knew in its step."""
    if finding.klass.startswith(("HANG", "DEATH")):
        return Problem(finding.klass, identity(finding))
    past = 0
    for learned in machine.learned:
        past |= next((known for step, known in reversed(learned) if step <= finding.position[0]), 0)
    return Problem(finding.klass, identity(finding), past)


def identity(finding: Finding) -> str:
    """Equal for the same mistake in two schedules: class, and who did it where; steps and ordinals are left out."""
    culprit = finding.culprit
    return finding.klass if culprit is None else f"{finding.klass} rank {culprit.rank} {culprit.site}"
