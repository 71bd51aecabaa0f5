"""Alternatives: adds to a failure's report which change of the schedule or of a call, or which additional rank, would
help.

    extras = of_result(extras, result, folder)              # of `dpsim run`
    extras = of_shown(extras, subject, shown, scenario)     # of a failure of an exploration
    extras = of_replayed(extras, replayed)                  # of a trace or a token that was run again
    extras = events_of_replayed(replayed)                   # of its picture

The report names the events to swap so that the run finishes (`turns`). It also names the culprit in a world with one
more rank (`one_more`), and the change of its call with which the run holds (`repaired`). All need further runs of the
simulation. So commands compute them only for a report that a user reads, and not during a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpsim.campaign.calls import no_breakpoints, with_calls
from dpsim.campaign.explored import Shown
from dpsim.campaign.one_more import with_one_more
from dpsim.campaign.repaired import repair_that_holds
from dpsim.campaign.replay import Replayed
from dpsim.campaign.subject import Subject
from dpsim.campaign.turns import turning_in_time, turning_of
from dpsim.checks.finding import Finding
from dpsim.contract.world import Run
from dpsim.diagnose.evidence import NOTHING, Extras
from dpsim.diagnose.turning_text import no_return, to_swap
from dpsim.diagnose.words import text
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.explore.turning import Turning
from dpsim.runner import SIMULATION, Result
from dpsim.scenario import Scenario

LONGEST = 20_000
"""The largest number of records of a run that is repaired, or of a timed one for which events to swap are searched."""


def of_result(extras: Extras, result: Result, base: Path | None = None) -> Extras:
    """Returns the extras for a single run. Also adds to the run the calls that led to its culprit's line.

    Only a run of the simulation gets events to swap. `base` is the folder of the scenario's files.
    """
    if result.primary is None or result.run.lost:
        return extras
    with no_breakpoints():
        return _of_result(extras, result, result.primary, base)


def _of_result(extras: Extras, result: Result, primary: Finding, base: Path | None) -> Extras:
    with_calls(result, base)
    found = None
    if result.run.backend == SIMULATION and sum(map(len, result.run.journals)) <= LONGEST:
        found = turning_in_time(Subject.of(result.scenario, base))
    extras = _with(extras, result.run, found, with_one_more(result.scenario, primary, base))
    if result.run.backend != SIMULATION:
        return extras
    return _confirmed(extras, Subject.of(result.scenario, base), result.run, primary, None)


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
            shown.events = _confirmed(new, subject, shown.run, shown.findings[0], schedule)
    new = shown.events
    events = extras._replace(no_return=new.no_return, swap=new.swap, swaps=new.swaps)
    return events._replace(one_more=new.one_more, repairs=new.repairs, sure=new.sure)


def of_replayed(extras: Extras, replayed: Replayed) -> Extras:
    """Of a run that a replay made again on the simulation: a run on real processes has no schedule to swap."""
    run, findings, scenario = replayed.run, replayed.findings, replayed.scenario
    if not findings or run.lost or replayed.backend != SIMULATION:
        return extras
    with no_breakpoints():
        found = _turning(replayed)
        extras = _with(extras, run, found, with_one_more(scenario, findings[0], replayed.base))
        schedule = None if replayed.schedule is None else replayed.schedule.steps
        return _confirmed(extras, Subject.of(scenario, replayed.base), run, findings[0], schedule)


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


def _confirmed(extras: Extras, subject: Subject, run: Run, primary: Finding, schedule: Sequence[str] | None) -> Extras:
    """Adds the repair with which the run holds, if there is one. `schedule`: None for a timed run."""
    follow = None if schedule is None else lambda: ScheduleReplay(schedule, strict=False, longest=subject.longest)
    repair = repair_that_holds(subject, run, primary, follow) if sum(map(len, run.journals)) <= LONGEST else None
    if repair is None:
        return extras
    return extras._replace(repairs=tuple(map(text, repair.ways)), sure=text(repair.fact))


def _with(extras: Extras, run: Run, found: Turning | None, more: Finding | None) -> Extras:
    if found is not None and found.finishes:
        point, swap = no_return(run, found.point, found.after), to_swap(run, found.swaps)
        extras = extras._replace(no_return=point, swap=swap, swaps=found.swaps)
    return extras if more is None else extras._replace(one_more=str(more.culprit))
