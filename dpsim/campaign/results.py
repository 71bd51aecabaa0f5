"""The results of a failure, in one folder: what a person looks at, and what another machine needs.

    .dpsim/results/drawn-ab2cb8e2/report.txt       the whole report
                                  picture.html     who waits for whom
                                  trace.jsonl      for `dpsim replay`, `dpsim export` and `dpsim compare`
                                  scenario.yaml    for `dpsim run` and `dpsim explore`
    .dpsim/results/latest                          a link to the newest of them

A failure has one name, so the same failure has one folder, however often it is found. Each file appears as a whole:
processes that fail alike, as under pytest-xdist, write equal files. The folders of the last KEPT failures stay, and
older ones go (`dpsim.campaign.pruning`). Nothing is written of what passes, nor where the environment variable
DPSIM_RESULTS is 0. What cannot be written changes no verdict.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dpsim.campaign.explored import Explored
from dpsim.campaign.pruning import begin, publish
from dpsim.campaign.replay import Replayed
from dpsim.campaign.traces import write_judged
from dpsim.checks.finding import Finding
from dpsim.contract.world import Run, World
from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.page import page
from dpsim.runner import Result
from dpsim.scenario import Scenario, dump_scenario
from dpsim.trace import Schedule, TraceError
from dpsim.trace.appearing import appearing

FOLDER = Path(".dpsim", "results")
"""Seen from the working folder."""

SWITCH = "DPSIM_RESULTS"
MOST = 200_000
"""Records of a run that has a trace and a picture: more fill a disk."""


class Failed(NamedTuple):
    """A failure. `report`: all of it, as text. `fingerprint`: equal for equal failures. `schedule`: of a run without
    time.
    """

    scenario: Scenario
    world: World
    run: Run
    findings: Sequence[Finding]
    report: str
    fingerprint: str
    schedule: Schedule | None = None

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', self.scenario.name)[:100].lstrip('.')}-{self.fingerprint}"


def is_wanted() -> bool:
    """Whether results are kept."""
    return os.environ.get(SWITCH, "1") not in ("", "0", "no", "off")


def fingerprint_of(result: Result) -> str:
    """Of a single run: 8 hexadecimal digits, equal for the same scenario, backend and first finding."""
    return _hashed(result.scenario, result.run, result.primary, result.unmet)


def _hashed(scenario: Scenario, run: Run, primary: Finding | None, unmet: str | None) -> str:
    what = "" if primary is None else f"{primary.klass} {primary.culprit}"
    text = f"{dump_scenario(scenario)}\n{run.backend}\n{what}\n{unmet}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def keep_results(failed: Failed, folder: Path = FOLDER) -> Path | None:
    """Write the files of a failure. The answer is its folder; None if nothing is wanted or nothing can be written."""
    if not is_wanted():
        return None
    own = folder / failed.name
    try:
        begin(own)
        _write(own / "report.txt", f"{failed.report}\n")
        _write(own / "scenario.yaml", dump_scenario(failed.scenario))
        if sum(map(len, failed.run.journals)) <= MOST:
            picture = picture_of_run(failed.world, failed.run, failed.findings, failed.scenario.name)
            _write(own / "picture.html", page(picture))
            klass = failed.findings[0].klass if failed.findings else None
            with suppress(TraceError):  # a decision that no trace can hold
                write_judged(own / "trace.jsonl", failed.run, failed.scenario, klass, failed.schedule)
    except OSError:
        return None
    publish(folder, failed.name)
    return own


def results_of_explored(scenario: Scenario, explored: Explored, folder: Path = FOLDER) -> list[Path]:
    """The same of each failure that an exploration shows, if what came is not as expected."""
    if explored.unmet is None or explored.exploration.lost:
        return []
    kept = []
    for shown in explored.shown:
        failure = shown.failure
        if shown.run is None:
            continue
        schedule = None if failure.in_time else Schedule(failure.by, tuple(shown.schedule))
        report, world = shown.report(full=True), explored.subject.world
        failed = Failed(scenario, world, shown.run, shown.findings, report, failure.fingerprint, schedule)
        kept.append(keep_results(failed, folder))
    return [one for one in kept if one is not None]


def results_of(result: Result, report: str, folder: Path = FOLDER) -> Path | None:
    """The same of a single run that is not as its scenario expects it; None for any other."""
    if result.unmet is None or result.run.lost:
        return None
    failed = Failed(result.scenario, result.world, result.run, result.findings, report, fingerprint_of(result))
    return keep_results(failed, folder)


def results_of_replayed(replayed: Replayed, world: World, report: str, folder: Path = FOLDER) -> Path | None:
    """The same of a run that a replay made again, if it is not as its scenario expects it. None for any other, and for
    a trace of a folder of results: the replay would write over what it replays.
    """
    findings, run = replayed.findings, replayed.run
    unmet = replayed.scenario.expected.unmet("violated", findings[0], (), "") if findings else None
    if unmet is None:
        return None
    if Path(replayed.name).resolve().is_relative_to(folder.resolve()):
        return None
    fingerprint = replayed.fingerprint or _hashed(replayed.scenario, run, findings[0], unmet)
    return keep_results(Failed(replayed.scenario, world, run, findings, report, fingerprint, replayed.schedule), folder)


def _write(path: Path, text: str) -> None:
    with appearing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
