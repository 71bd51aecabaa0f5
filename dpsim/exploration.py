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

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsim.checks.finding import Finding, can_match
from dpsim.checks.judge import judge, switch_off
from dpsim.diagnose.report import report
from dpsim.explore import LONGEST, Budget, Exploration, Failure, Problem, Search, explore, search
from dpsim.explore.explorer import counted
from dpsim.explore.normal import switches
from dpsim.explore.replay import Replay
from dpsim.registry import Program
from dpsim.scenario import Scenario
from dpsim.scenario.build import prepare, world
from dpsim.schedule import CutOff, Strategy
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


@dataclass
class Shown:
    """A failure, and the run that shows it: along its normal form, or along the schedule that showed it first where the
    normal form does not (then it is not `confirmed`); None if neither does. `schedule`: that run's, word by word.
    """

    failure: Failure
    run: Run | None
    findings: Sequence[Finding]
    schedule: Sequence[str]
    confirmed: bool

    def report(self, replay: str = "") -> str:
        """What does not hold, the schedule that shows it, and what to type to see it again."""
        failure, steps = self.failure, self.failure.normal
        lines = [
            report(self.run, self.findings) if self.run is not None else f"VIOLATED  {failure.problem.klass}",
            "",
            f"failure {failure.fingerprint}, found by {failure.by} in run {failure.first:,}, "
            f"seen {counted(failure.seen, 'time')}; "
            + (f"{counted(len(steps), 'step')} with {counted(switches(steps), 'switch', 'switches')}:" if steps else "")
            + ("" if steps else "no choice has to do with it"),
            *(f"  {label}" for label in steps),
        ]
        if not self.confirmed:
            lines.append(
                "NOT CONFIRMED: a run along this schedule does not show it. Some op touches more than its footprint\n"
                "says, or the run depends on more than the schedule (state that outlives a run, a clock). No verdict\n"
                "on this world can be trusted"
            )
        return "\n".join([*lines, *([f"replay: {replay}"] if replay else [])])


@dataclass
class Explored:
    """What is known of a subject. `shown`: its failures, in the order in which they were found."""

    subject: Subject
    exploration: Exploration
    shown: Sequence[Shown] = ()

    @property
    def verdict(self) -> str:
        return self.exploration.verdict

    @property
    def failure(self) -> Failure | None:
        """The first."""
        return self.shown[0].failure if self.shown else None

    @property
    def findings(self) -> Sequence[Finding]:
        """Those of the run that shows the first failure."""
        return self.shown[0].findings if self.shown else ()

    @property
    def confirmed(self) -> bool:
        """Whether every failure was."""
        return all(one.confirmed for one in self.shown)

    def told(self) -> str:
        """The verdict in a line, with counts."""
        return self.exploration.told()

    def report(self, replay: str = "") -> str:
        """The first failure: what does not hold, and the schedule that shows it. Empty if there is none."""
        return self.shown[0].report(replay) if self.shown else ""


def explore_subject(
    subject: Subject,
    strategy: str | Search = "portfolio",
    *,
    schedules: int = 1_000,
    seconds: float | None = None,
    seed: int = 0,
    stop_at_first: bool = True,
    progress: Callable[[Exploration], None] | None = None,
) -> Explored:
    """Explore until everything is known, or so many schedules were run, or so many seconds have passed.

    Raises ValueError for an unknown strategy, and Diverged or Mismatch if a run is no function of its schedule.
    """
    chosen = search(strategy, seed, subject.longest) if isinstance(strategy, str) else strategy
    end = None if seconds is None else time.monotonic() + seconds
    found = search_subject(
        subject,
        chosen,
        schedules=schedules,
        stop_at_first=stop_at_first,
        expired=lambda: end is not None and time.monotonic() > end,
        progress=progress,
    )
    return Explored(subject, found, [show(subject, one) for one in found.failures.values()])


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


def show(subject: Subject, failure: Failure) -> Shown:
    """Run a failure's normal form; where it does not show the failure, the schedule that did."""
    for schedule, confirmed in ((failure.normal, True), (failure.schedule, False)):
        follow = Replay(schedule, strict=False, longest=subject.longest)
        follow.begin()
        try:
            run, findings = subject.run(follow)
        except CutOff:  # an actor that the normal form leaves out polls for ever where it comes last
            continue
        if findings and identity(findings[0]) == failure.problem.what:
            return Shown(failure, run, findings, follow.schedule, confirmed)
    return Shown(failure, None, (), failure.schedule, False)


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
