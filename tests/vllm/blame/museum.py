"""Compares the report of each exhibit with what is wrong in the exhibit: class, rank, site and source line.

    python -m tests.vllm.blame.museum               # a line each, and figures with denominators
    python -m tests.vllm.blame.museum "M-DP-*"      # some of them

Rank and site are compared with the exhibit's label (`tests.vllm.blame.labels`). The rank is also compared with
`expect.culprit`, if the exhibit has one. The place is right if the finding names a line of the variant's classes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
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
from dpsim.diagnose.words import text
from dpsim.explore import search
from dpsim.scenario import Scenario
from dpsim.sim.backend import SimBackend
from tests import ROOT
from tests.vllm.blame.labels import GOOD, SAYS, labels

PLACE = re.compile(r"([\w/.-]+\.py):(\d+)")
LIMIT = 200


class Shown(NamedTuple):
    """What the report of a variant's exhibit shows.

    `rank`: whether the culprit is the one that the scenario expects; None if the scenario expects none. `says`: the
    grade of the report by its label. `site`: whether the report names a site of the label.
    """

    entry: VariantEntry
    found: Finding | None
    klass: bool
    rank: bool | None
    place: str
    says: str
    site: bool

    @property
    def good(self) -> bool:
        """Whether the report names the right rank and site, by the label."""
        return self.says in GOOD and self.site

    def line(self) -> str:
        culprit = self.found.culprit if self.found else None
        klass = self.found.klass if self.found else "-"
        site = "right" if self.site else "other"
        return f"{self.entry.name:24} {klass:34} {self.says:10} site {site} place {self.place:8} {culprit}"


def shown(entry: VariantEntry, file: Path) -> Shown:
    """Finds the exhibit's mistake in one run, else by exploring, and grades the primary finding."""
    scenario = exhibit(entry, file)
    subject, label = Subject.of(scenario, file.parent), labels()[entry.name]
    found = _primary(subject, entry.expected or "*")
    klass = found is not None and matches(found.klass, scenario.expect.klass or entry.expected or "*")
    says, site = label.says(subject.world, found), label.site(found)
    return Shown(entry, found, klass, _rank(scenario, found), _place(entry, found), says, site)


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
    """Returns where the finding names a line of the variant: "culprit", or "message" if only its text does.

    If the finding names other lines of the variant's file only, returns "file"; else "-".
    """
    if found is None:
        return "-"
    of_culprit = PLACE.findall(found.culprit.where) if found.culprit else []
    of_message = PLACE.findall(" ".join(map(text, [found.message, *found.details, *found.ground, *found.waits])))
    lines = [*_lines(entry)]
    for said, places in (("culprit", of_culprit), ("message", of_message)):
        if any(path == file and first <= int(line) < end for path, line in places for file, first, end in lines):
            return said
    return "file" if any(path == lines[0][0] for path, _ in [*of_culprit, *of_message]) else "-"


def _lines(entry: VariantEntry) -> Iterator[tuple[str, int, int]]:
    """Yields file, first line and the line after the last one, of the variant and of its bases in the same module."""
    for make in entry.make.__mro__:
        if make.__module__ == entry.make.__module__:
            source, first = inspect.getsourcelines(make)
            file = Path(inspect.getfile(make)).resolve().relative_to(ROOT.resolve())
            yield str(file), first, first + len(source)


def all_shown(patterns: list[str]) -> Iterator[Shown]:
    """Yields the result of each variant that a check has to find, or of those that the patterns select."""
    files = exhibits()
    for entry in registry.variants():
        wanted = not patterns or any(fnmatchcase(entry.name, pattern) for pattern in patterns)
        if entry.name.lower() in files and entry.expected is not None and wanted:
            yield shown(entry, files[entry.name.lower()])


def figures(rows: list[Shown]) -> list[str]:
    """Returns the counts of right reports, with denominators."""
    said, number, counts = [row for row in rows if row.rank is not None], len(rows), Counter(row.says for row in rows)
    good = sum(row.good for row in rows)
    return [
        f"class right: {sum(row.klass for row in rows)} of {number}",
        f"rank by the label: {', '.join(f'{counts[says]} {says}' for says in SAYS)}; of {number}",
        f"site right: {sum(row.site for row in rows)} of {number}",
        f"rank and site right: {good} of {number}, {100 * good / max(number, 1):.1f} %",
        f"rank and step as the scenario says: {sum(bool(row.rank) for row in said)} of {len(said)} that say one",
        f"place right: {sum(row.place in ('culprit', 'message') for row in rows)} of {number}",
    ]


def main(patterns: list[str]) -> None:
    rows = []
    for row in all_shown(patterns):
        rows.append(row)
        print(row.line(), flush=True)
    print("\n".join(figures(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
