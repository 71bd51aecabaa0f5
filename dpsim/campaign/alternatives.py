"""What else a failure's report says, where the simulation can show it: the turning, and one rank more.

    extras = of_result(extras, result, folder)              # of `dpsim run`
    extras = of_shown(extras, subject, shown, scenario)     # of a failure of an exploration
    extras = of_replayed(extras, replayed)                  # of a trace or a token that was run again

All make more runs of the same world (`turns`, `one_more`). So commands ask for them where a person reads the report,
and a search does not ask.
"""

from __future__ import annotations

from pathlib import Path

from dpsim.campaign.calls import no_breakpoints, with_calls
from dpsim.campaign.explored import Shown
from dpsim.campaign.one_more import with_one_more
from dpsim.campaign.replay import Replayed
from dpsim.campaign.subject import Subject
from dpsim.campaign.turns import turning_in_time, turning_of
from dpsim.checks.finding import Finding
from dpsim.contract.world import Run
from dpsim.diagnose.evidence import Extras
from dpsim.diagnose.turning_text import no_return, to_swap
from dpsim.explore.turning import Turning
from dpsim.runner import SIMULATION, Result
from dpsim.scenario import Scenario

LONGEST = 20_000
"""Records of a run in time that is searched."""


def of_result(extras: Extras, result: Result, base: Path | None = None) -> Extras:
    """Of a run, which then knows the calls that led to its culprit's line. Only one of the simulation has a turning.
    `base`: the folder of the scenario's files.
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
    return _with(extras, result.run, found, with_one_more(result.scenario, primary, base))


def of_shown(extras: Extras, subject: Subject, shown: Shown, scenario: Scenario) -> Extras:
    """Of a failure that a schedule shows."""
    if shown.run is None or not shown.findings or not shown.confirmed:
        return extras
    with no_breakpoints():
        found = None if shown.failure.in_time else turning_of(subject, shown.schedule)
        return _with(extras, shown.run, found, with_one_more(scenario, shown.findings[0]))


def of_replayed(extras: Extras, replayed: Replayed) -> Extras:
    """Of a run that a replay made again on the simulation: a run on real processes has no schedule to swap."""
    run, findings, scenario = replayed.run, replayed.findings, replayed.scenario
    if not findings or run.lost or replayed.backend != SIMULATION:
        return extras
    with no_breakpoints():
        found = None
        if replayed.schedule is not None:
            found = turning_of(Subject.of(scenario, replayed.base), replayed.schedule.steps)
        elif replayed.steps is None and sum(map(len, run.journals)) <= LONGEST:
            found = turning_in_time(Subject.of(scenario, replayed.base))
        return _with(extras, run, found, with_one_more(scenario, findings[0], replayed.base))


def _with(extras: Extras, run: Run, found: Turning | None, more: Finding | None) -> Extras:
    if found is not None and found.finishes:
        extras = extras._replace(no_return=no_return(run, found.point, found.after), swap=to_swap(run, found.swaps))
    return extras if more is None else extras._replace(one_more=str(more.culprit))
