"""Night: runs all parts of a night, one after another. It writes each row to the night's file before the next begins.

rows = run_night(Night(Path("nights"), "2026-11-27", size=SIZES["minute"]))
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias
from xml.etree import ElementTree

from dpsim.campaign import museum
from dpsim.campaign.coverage import Coverage
from dpsim.campaign.files import Options
from dpsim.campaign.interrupts import with_done
from dpsim.campaign.nights.idle import row_of_none
from dpsim.campaign.nights.rows import BEGINS, Found, NightRefused, NightRow, append, file_of
from dpsim.campaign.nights.sizes import Size
from dpsim.campaign.nights.worlds import Base, as_written, small_worlds, swarms, visits
from dpsim.contract.registry import VariantEntry
from dpsim.contract.schedule import OutOfTime
from dpsim.contract.words import counted
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import bundled_files

PARTS = ("scenarios", "swarm", "small", "museum", "tests")

Visit: TypeAlias = Callable[[Callable[[], bool]], Iterator[NightRow]]
"""Runs the museum until the time has expired."""

BROKEN = ("failure", "error")
LONGEST = 500
"""The most characters of the text of a failed test."""


class Night(NamedTuple):
    """What the night of a date should do. `folder`: the files of all nights. `scenarios`: None for all of dpsim.
    `up_to`: sizes of small worlds. `only`: patterns of variants. `exhibits`: further folders of the museum. `tests`:
    the report of pytest. `seconds`: for the whole night. `modules` register protocols, also in the printed commands.
    """

    folder: Path
    night: str
    size: Size = Size()
    parts: Sequence[str] = PARTS
    scenarios: Sequence[Base] | None = None
    up_to: str | None = None
    only: Sequence[str] = ()
    exhibits: Sequence[Path] = ()
    tests: Path | None = None
    seconds: float | None = None
    seed: int = 0
    jobs: int = 1
    modules: Sequence[str] = ()


def run_night(request: Night, progress: Callable[[str, int], None] = lambda part, done: None) -> list[NightRow]:
    """Runs the parts, and returns their rows. `progress` receives the part and the number of rows so far. Raises for
    bad input before the first row. A KeyboardInterrupt carries the number of rows and the file.
    """
    file, end = file_of(request.folder, request.night), None
    if request.seconds is not None:
        end = time.monotonic() + request.seconds
    bases = bundled() if request.scenarios is None else request.scenarios
    entries = _entries(request) if "museum" in request.parts else []
    tests = [] if request.tests is None else [*rows_of_tests(request.tests)]
    files = museum.exhibits(request.exhibits)
    rows: list[NightRow] = []
    append(file, _begins(request, bases, entries))
    try:
        for row in _rows(request, bases, lambda expired: visits(entries, files, request.size, expired), tests, end):
            row = _with_modules(row, request.modules)
            append(file, row)
            rows.append(row)
            progress(row.part, len(rows))
    except OutOfTime:
        pass
    except KeyboardInterrupt as error:
        with_done(error, f"{counted(len(rows), 'row')} in {file}")
        raise
    return rows


def bundled() -> list[Base]:
    """Returns the scenarios that come with dpsim, without those of the museum."""
    files = bundled_files().items()
    return [(load_scenario(file), file.parent) for name, file in files if not name.startswith(museum.FOLDER)]


def _entries(request: Night) -> list[VariantEntry]:
    entries = museum.chosen(request.only)
    if request.scenarios is None or request.only:
        return entries
    protocols = {scenario.protocol.name for scenario, _ in request.scenarios}
    return [entry for entry in entries if entry.protocol in protocols]


def _begins(request: Night, bases: Sequence[Base], entries: Sequence[VariantEntry]) -> NightRow:
    """Returns the first row, which declares with count 0 what the worlds of this night may reach."""
    coverage = Coverage()
    for name in sorted({scenario.protocol.name for scenario, _ in bases} | {entry.protocol for entry in entries}):
        coverage.declare(name)
    chosen = {f"{entry.protocol}: variant {entry.name}": 0 for entry in entries}
    coverage.merge({"rows": chosen})
    return NightRow(part=BEGINS, name=" ".join(request.parts), seed=request.seed, reached=coverage.counts)


def _with_modules(row: NightRow, modules: Sequence[str]) -> NightRow:
    """Returns the row, whose dpsim commands import the same modules as the night."""
    words = [word for module in modules for word in ("--module", module)]
    if not words:
        return row
    failures = [
        one.model_copy(update={"show": f"{one.show} {shlex.join(words)}"}) if one.show.startswith("dpsim ") else one
        for one in row.failures
    ]
    return row.model_copy(update={"failures": tuple(failures)})


def _rows(
    request: Night, bases: Sequence[Base], visit: Visit, tests: Sequence[NightRow], end: float | None
) -> Iterator[NightRow]:
    """Yields at least one row for each part. Raises OutOfTime after the row during which the time ended."""

    def expired() -> bool:
        return end is not None and time.monotonic() > end

    def options() -> Options:
        left = None if end is None else max(end - time.monotonic(), 0.001)
        traces = request.folder / "traces"
        return Options(
            schedules=request.size.schedules, seconds=left, jobs=request.jobs, seed=request.seed, folder=traces
        )

    size = request.size
    makers: dict[str, Callable[[], Iterator[NightRow]]] = {
        "scenarios": lambda: as_written(bases, size, options),
        "swarm": lambda: swarms(bases, size, options),
        "small": lambda: small_worlds(bases, size, options, request.up_to),
        "museum": lambda: visit(expired),
        "tests": lambda: iter(tests),
    }
    for part in PARTS:
        if part not in request.parts:
            continue
        none = True
        for row in makers[part]():
            none = False
            yield row
            if expired():
                raise OutOfTime
        if none:
            yield row_of_none(part)


def rows_of_tests(file: Path) -> Iterator[NightRow]:
    """Yields a row for each test of a `pytest --junitxml`, such as fuzzers. Raises OSError, and NightRefused."""
    try:
        cases = [*ElementTree.parse(file).getroot().iter("testcase")]
        seconds = [float(case.get("time", "0")) for case in cases]
    except (ElementTree.ParseError, ValueError) as error:
        raise NightRefused(f"{file}: no report of tests ({error}); expected the file of pytest --junitxml") from None
    for case, took in zip(cases, seconds, strict=True):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        broken = [part for part in case if part.tag in BROKEN]
        skipped = next((part.get("message", "") for part in case if part.tag == "skipped"), None)
        says = [(part.get("message", "") or "").partition("\n")[0][:LONGEST] for part in broken]
        yield NightRow(
            part="tests",
            name=name,
            verdict="failed" if broken else "passed" if skipped is None else "skipped",
            seconds=max(took, 0.0),
            failures=tuple(Found(what=part.tag, message=text) for part, text in zip(broken, says, strict=True)),
            left_out=skipped or "",
        )
