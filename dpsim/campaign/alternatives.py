"""Alternatives: adds to a failure's report which change of the schedule or of a call, or which additional rank, would
help.

    extras = of_result(extras, result, folder)              # of `dpsim run`
    extras = of_shown(extras, subject, shown, scenario)     # of a failure of an exploration
    extras = of_replayed(extras, replayed)                  # of a trace or a token that was run again

All need further runs. So commands compute them only for a report that a user reads, and not during a search.

* `turning_of`: which events to swap so that the run finishes. A try is one run with some steps in another order. The
  steps of all tries are bounded, so a long run gets fewer. Those of a timed run follow the order of its ops, without
  time. If that run does not fail, for example because a timeout mattered, the result is None.
* `with_one_more`: if two ranks differ, there is no majority. A program may offer the same scenario with one more rank
  (`Program.one_more`). If a finding of the same class has a culprit there, the report prints it.
* `repair_that_holds`: the change of one of the culprit's calls with which the run holds (`repaired`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpsim.campaign.calls import no_breakpoints, with_calls
from dpsim.campaign.explored import Shown
from dpsim.campaign.repaired import repair_that_holds
from dpsim.campaign.replay import Replayed
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge, switch_off
from dpsim.contract.program import Unsuitable
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Run, Unended
from dpsim.diagnose.evidence import NOTHING, Extras
from dpsim.diagnose.turning_text import no_return, to_swap
from dpsim.diagnose.words import text
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.explore.turning import RUNS, Turning, turning
from dpsim.runner import SIMULATION, Result
from dpsim.scenario import Scenario, ScenarioError
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend

LONGEST = 20_000
"""The largest number of records of a run that is repaired, or of a timed one for which events to swap are searched."""

STEPS = 60_000
"""The largest number of steps of all tries together. 120 runs of 500 steps take a second or two."""

FEWEST = 8
"""If fewer tries than this are possible, there is no search."""


def of_result(extras: Extras, result: Result, base: Path | None = None) -> Extras:
    """Returns the extras for a single run of a scenario in `base`, and adds the calls that led to its culprit."""
    if result.primary is None or result.run.lost:
        return extras
    with no_breakpoints():
        return _of_result(extras, result, result.primary, base)


def _of_result(extras: Extras, result: Result, primary: Finding, base: Path | None) -> Extras:
    with_calls(result, base)
    more, run = with_one_more(result.scenario, primary, base), result.run
    if run.backend != SIMULATION:
        return _with(extras, run, None, more)
    subject = Subject.of(result.scenario, base)
    found = turning_in_time(subject) if sum(map(len, run.journals)) <= LONGEST else None
    return _repaired(_with(extras, run, found, more), subject, run, primary, None)


def of_shown(extras: Extras, subject: Subject, shown: Shown, scenario: Scenario) -> Extras:
    """Returns the extras for a failure that a schedule shows. Only the first call for a failure makes runs."""
    extras = extras._replace(shared=shown.shared)
    if shown.run is None or not shown.findings or not shown.confirmed:
        return extras
    if shown.events is None:
        with no_breakpoints():
            found = None if shown.failure.in_time else turning_of(subject, shown.schedule)
            new = _with(NOTHING, shown.run, found, with_one_more(scenario, shown.findings[0]))
            schedule = None if shown.failure.in_time else shown.schedule
            shown.events = _repaired(new, subject, shown.run, shown.findings[0], schedule)
    new = shown.events
    events = extras._replace(no_return=new.no_return, swap=new.swap, swaps=new.swaps)
    return events._replace(one_more=new.one_more, repairs=new.repairs, repair=new.repair)


def of_replayed(extras: Extras, replayed: Replayed) -> Extras:
    """Of a run that a replay made again on the simulation: a run on real processes has no schedule to swap."""
    run, findings, scenario = replayed.run, replayed.findings, replayed.scenario
    if not findings or run.lost or replayed.backend != SIMULATION:
        return extras
    with no_breakpoints():
        found = _turning(replayed)
        extras = _with(extras, run, found, with_one_more(scenario, findings[0], replayed.base))
        schedule = None if replayed.schedule is None else replayed.schedule.steps
        return _repaired(extras, Subject.of(scenario, replayed.base), run, findings[0], schedule)


def events_of_replayed(replayed: Replayed) -> Extras:
    """Returns only the events to swap, without the run of a larger world: for a picture, which has no room for it."""
    if not replayed.findings or replayed.run.lost or replayed.backend != SIMULATION:
        return NOTHING
    with no_breakpoints():
        return _with(NOTHING, replayed.run, _turning(replayed), None)


def _turning(replayed: Replayed) -> Turning | None:
    subject = Subject.of(replayed.scenario, replayed.base)
    if replayed.schedule is not None:
        return turning_of(subject, replayed.schedule.steps)
    in_time = replayed.noted is None and sum(map(len, replayed.run.journals)) <= LONGEST
    return turning_in_time(subject) if in_time else None


def _repaired(extras: Extras, subject: Subject, run: Run, primary: Finding, schedule: Sequence[str] | None) -> Extras:
    """Adds the repair with which the run holds, if there is one. `schedule`: None for a timed run."""
    follow = None if schedule is None else lambda: ScheduleReplay(schedule, strict=False, longest=subject.longest)
    repair = repair_that_holds(subject, run, primary, follow) if sum(map(len, run.journals)) <= LONGEST else None
    if repair is None:
        return extras
    return extras._replace(repairs=tuple(map(text, repair.ways)), repair=text(repair.fact))


def _with(extras: Extras, run: Run, found: Turning | None, more: Finding | None) -> Extras:
    if found is not None and found.finishes:
        point, swap = no_return(run, found.point, found.after), to_swap(run, found.swaps)
        extras = extras._replace(no_return=point, swap=swap, swaps=found.swaps)
    return extras if more is None else extras._replace(one_more=str(more.culprit))


def turning_of(subject: Subject, schedule: Sequence[str]) -> Turning | None:
    """Returns the result for a failing schedule; None if it is too long, or if its run does not fail."""
    runs = min(RUNS, STEPS // max(len(schedule), 1))
    if runs < FEWEST:
        return None

    def once(strategy: Strategy) -> bool:
        _, findings = subject.run(strategy)
        return not findings

    try:
        return turning(once, schedule, runs=runs, longest=subject.longest)
    except Unended:  # the machine cannot run it, or the schedule does not determine the run
        return None


def turning_in_time(subject: Subject) -> Turning | None:
    """Returns the result for the timed run."""
    program, prepared = subject.fresh()()
    try:
        run = SimBackend(keep_order=True).run_program(subject.world, program, prepared)
    except Unended:
        return None
    return turning_of(subject, run.order)


def with_one_more(scenario: Scenario, found: Finding, base: Path | None = None) -> Finding | None:
    """Returns the finding with one more rank; None if it has a culprit, or none in that scenario either."""
    if found.culprit is not None:
        return None
    try:
        more = scenario.one_more()
        if more is None:
            return None
        program, _, prepared = prepare(more, base)
        larger_world = world(more, program, prepared)
        run = SimBackend().run_program(larger_world, program, prepared)
    except (ScenarioError, Unsuitable, Unended):  # the program may refuse this size
        return None
    off = scenario.checks.switched_off
    findings = switch_off(judge(larger_world, run, off), off)[0]
    same = bool(findings) and findings[0].klass == found.klass and findings[0].culprit is not None
    return findings[0] if same else None
