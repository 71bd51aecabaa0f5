"""Whom the reports of the museum blame: class, rank and place of each exhibit, held against what is wrong in it.

    python -m tests.vllm.blame.museum               # three lines with denominators, and those that are not right
    python -m tests.vllm.blame.museum "M-DP-*"      # some of them

The rank is that of `expect.culprit`, where an exhibit has one. The place is right if the finding names a line of the
variant: one within the source of its classes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from dpsim.campaign.museum import exhibit, exhibits, seek
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding, matches
from dpsim.checks.judge import judge
from dpsim.contract import registry
from dpsim.contract.registry import VariantEntry
from dpsim.explore import search
from dpsim.scenario import Scenario
from dpsim.sim.backend import SimBackend
from tests import ROOT

PLACE = re.compile(r"([\w/.-]+\.py):(\d+)")
LIMIT = 200


class Shown(NamedTuple):
    """What a variant's exhibit shows. `rank` and `place`: whether they are right; None where no exhibit says so."""

    entry: VariantEntry
    found: Finding | None
    klass: bool
    rank: bool | None
    place: str

    def line(self) -> str:
        culprit = self.found.culprit if self.found else None
        klass = self.found.klass if self.found else "-"
        rank = {True: "right", False: "wrong", None: "not said"}[self.rank]
        return f"{self.entry.name:24} {klass:34} rank {rank:8} place {self.place:8} {culprit}"


def shown(entry: VariantEntry, file: Path) -> Shown:
    """Find the variant in time, else by all orders of events, and look whom the primary finding blames."""
    scenario = exhibit(entry, file)
    found = _primary(Subject.of(scenario, file.parent), entry.expected or "*")
    klass = found is not None and matches(found.klass, scenario.expect.klass or entry.expected or "*")
    return Shown(entry, found, klass, _rank(scenario, found), _place(entry, found))


def _primary(subject: Subject, wanted: str) -> Finding | None:
    findings = judge(subject.world, SimBackend().run_program(subject.world, subject.program, subject.prepared))
    if findings and matches(findings[0].klass, wanted):
        return findings[0]
    seen: dict[str, Finding] = {}
    for strategy in ("dpor", "random", "pct"):
        seek(subject, search(strategy), wanted, LIMIT, seen)
        if seen:
            return next((one for klass, one in seen.items() if matches(klass, wanted)), next(iter(seen.values())))
    return None


def _rank(scenario: Scenario, found: Finding | None) -> bool | None:
    expected = scenario.expect.culprit
    if expected is None:
        return None
    culprit = found.culprit if found else None
    if culprit is None:
        return False
    return expected.rank in (culprit.ranks or (culprit.rank, culprit.service)) and expected.step in (None, culprit.step)


def _place(entry: VariantEntry, found: Finding | None) -> str:
    """ "culprit": the culprit's line is the variant's. "message": another one in the message is. "file": one of another
    variant in that file. "-": none.
    """
    if found is None:
        return "-"
    of_culprit = PLACE.findall(found.culprit.where) if found.culprit else []
    of_message = PLACE.findall(" ".join([found.message, *found.details, *found.ground, *found.waits]))
    lines = [*_lines(entry)]
    for said, places in (("culprit", of_culprit), ("message", of_message)):
        if any(path == file and first <= int(line) < end for path, line in places for file, first, end in lines):
            return said
    return "file" if any(path == lines[0][0] for path, _ in [*of_culprit, *of_message]) else "-"


def _lines(entry: VariantEntry) -> Iterator[tuple[str, int, int]]:
    """File, first line and the one behind the last: of the variant, and of its bases in its module."""
    for make in entry.make.__mro__:
        if make.__module__ == entry.make.__module__:
            source, first = inspect.getsourcelines(make)
            file = Path(inspect.getfile(make)).resolve().relative_to(ROOT.resolve())
            yield str(file), first, first + len(source)


def all_shown(patterns: list[str]) -> Iterator[Shown]:
    """Each variant that a check has to find, or those that the patterns select."""
    files = exhibits()
    for entry in registry.variants():
        wanted = not patterns or any(fnmatchcase(entry.name, pattern) for pattern in patterns)
        if entry.name.lower() in files and entry.expected is not None and wanted:
            yield shown(entry, files[entry.name.lower()])


def main(patterns: list[str]) -> None:
    rows = []
    for row in all_shown(patterns):
        rows.append(row)
        print(row.line(), flush=True)
    said = [row for row in rows if row.rank is not None]
    print(f"class right: {sum(row.klass for row in rows)} of {len(rows)}")
    print(f"rank and step right: {sum(bool(row.rank) for row in said)} of {len(said)} that say one")
    print(f"place right: {sum(row.place in ('culprit', 'message') for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
