"""Results: writes the files about a failure into one folder: a report and a picture for users, and files for commands.

    .dpsim/results/drawn-ab2cb8e2/report.txt       the whole report
                                  picture.html     who waits for whom
                                  trace.jsonl      for `dpsim replay`, `dpsim export` and `dpsim compare`
                                  scenario.yaml    for `dpsim run` and `dpsim explore`
    .dpsim/results/latest                          a link to the newest of them

The name identifies the failure, so processes with the same failure, as under pytest-xdist, write equal files. Each file
appears as a whole. The folders of the last KEPT failures stay (`dpsim.campaign.pruning`). With DPSIM_RESULTS=0, dpsim
writes no folders. If a file cannot be written, the verdict does not change.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dpsim.campaign.alternatives import of_shown
from dpsim.campaign.explored import Explored
from dpsim.campaign.pruning import begin, publish
from dpsim.campaign.replay import Replayed
from dpsim.campaign.traces import write_judged
from dpsim.checks.finding import Finding
from dpsim.contract.words import counted
from dpsim.contract.world import Run, World
from dpsim.diagnose.evidence import NOTHING, Extras
from dpsim.diagnose.injected import not_the_cause
from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.page import page
from dpsim.diagnose.report import report
from dpsim.diagnose.variants import extras_of_choice
from dpsim.explore import Failure
from dpsim.explore.normal_form import folded, many, switches
from dpsim.runner import Result
from dpsim.scenario import Scenario, dump_scenario
from dpsim.trace import Schedule, TraceError
from dpsim.trace.appearing import appearing

FOLDER = Path(".dpsim", "results")

SWITCH = "DPSIM_RESULTS"
MOST = 200_000
"""A run with more records has neither trace nor picture, because they would fill the disk."""


class Failed(NamedTuple):
    """A failure. `report`: all of it. `schedule`: of an untimed run. `extras`: events to swap, for the picture."""

    scenario: Scenario
    world: World
    run: Run
    findings: Sequence[Finding]
    report: str
    fingerprint: str
    schedule: Schedule | None = None
    extras: Extras = NOTHING

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', self.scenario.name)[:100].lstrip('.')}-{self.fingerprint}"


def is_wanted() -> bool:
    """Returns whether dpsim should write results."""
    return os.environ.get(SWITCH, "1") not in ("", "0", "no", "off")


def _hashed(scenario: Scenario, run: Run, primary: Finding | None, unmet: str | None) -> str:
    what = "" if primary is None else f"{primary.klass} {primary.culprit}"
    text = f"{dump_scenario(scenario)}\n{run.backend}\n{what}\n{unmet}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def keep_results(failed: Failed, folder: Path = FOLDER) -> Path | None:
    """Writes the files of a failure, and returns its folder. None if results are switched off or cannot be written."""
    if not is_wanted():
        return None
    own = folder / failed.name
    try:
        begin(own)
        _write(own / "report.txt", f"{failed.report}\n")
        _write(own / "scenario.yaml", dump_scenario(failed.scenario))
        if sum(map(len, failed.run.journals)) <= MOST:
            picture = picture_of_run(
                failed.world, failed.run, failed.findings, failed.scenario.name, extras=failed.extras
            )
            _write(own / "picture.html", page(picture))
            klass = failed.findings[0].klass if failed.findings else None
            with suppress(TraceError):  # the run has a value that a trace cannot contain
                write_judged(own / "trace.jsonl", failed.run, failed.scenario, klass, failed.schedule)
    except OSError:
        return None
    publish(folder, failed.name)
    return own


def results_of_explored(
    scenario: Scenario,
    explored: Explored,
    folder: Path = FOLDER,
    next_of: Callable[[Failure], tuple[str, ...]] = lambda failure: (),
) -> list[Path]:
    """Writes the results of each failure that is not expected. `next_of`: the commands to suggest for it."""
    if explored.unmet is None or explored.exploration.lost or not is_wanted():
        return []
    kept = []
    for shown in explored.shown:
        failure = shown.failure
        if shown.run is None:
            continue
        schedule = None if failure.in_time else Schedule(failure.by, tuple(shown.schedule))
        extras = extras_of_choice(scenario.protocol, *next_of(failure))
        extras = of_shown(extras, explored.subject, shown, scenario)
        told, world = shown.report(extras, full=True), explored.subject.world
        failed = Failed(scenario, world, shown.run, shown.findings, told, failure.fingerprint, schedule, extras)
        kept.append(keep_results(failed, folder))
    return [one for one in kept if one is not None]


def results_of(result: Result, told: str, extras: Extras = NOTHING) -> Path | None:
    """Writes the results of a single run that is not as its scenario expects; None for any other."""
    if result.unmet is None or result.run.lost:
        return None
    name = _hashed(result.scenario, result.run, result.primary, result.unmet)
    failed = Failed(result.scenario, result.world, result.run, result.findings, told, name, extras=extras)
    return keep_results(failed, FOLDER)


def results_of_replayed(replayed: Replayed, world: World, extras: Extras, folder: Path = FOLDER) -> Path | None:
    """Writes the results of a replay that is not as expected; else None. Also None for a trace in such a folder,
    because the replay would overwrite it. The report is whole, because the folder may be that of the first run.
    """
    findings, run = replayed.findings, replayed.run
    expected = replayed.scenario.expected
    unmet = expected.unmet("violated", findings[0], not_the_cause(expected, world, run)) if findings else None
    if unmet is None:
        return None
    if Path(replayed.name).resolve().is_relative_to(folder.resolve()):
        return None
    fingerprint = replayed.fingerprint or _hashed(replayed.scenario, run, findings[0], unmet)
    told = f"{whole_report(replayed, extras)}\n\n{replayed.summary()}"
    failed = Failed(replayed.scenario, world, run, findings, told, fingerprint, replayed.schedule, extras)
    return keep_results(failed, folder)


def whole_report(replayed: Replayed, extras: Extras) -> str:
    """Returns the whole report of a replayed run with findings, with the choices of its schedule."""
    if replayed.schedule is not None:
        words = replayed.schedule.steps
        head = f"{many(words)} with {counted(switches(words), 'switch', 'switches')}"
        extras = extras._replace(schedule=(head, *folded(words)))
    return report(replayed.run, replayed.findings, extras, full=True)


def _write(path: Path, text: str) -> None:
    with appearing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
