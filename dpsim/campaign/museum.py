"""Museum: measures for each known bug which strategy finds it, after how many schedules.

A check that never found a bug proves nothing, and neither does one that also reports healthy programs. So each
registered variant (a protocol with one bug) has an *exhibit*, the smallest scenario that shows the bug. That of M-DP-1
is `scenarios/museum/m-dp-1.yaml`. For each variant:

* Every strategy searches for a schedule whose primary finding has the registered class. A random strategy runs with
  `SEEDS` seeds. The table includes failed searches, and the random walk (Thomson, Donaldson and Betts, TOPC 2016).
* dpsim explores the *twin*, the same scenario without the bug, and must find no violation. If some bug needs a feature
  that the protocol lacks, a healthy variant with it is the twin.
* dpsim also explores variants that are only slower, and must find no violation in them.

    >>> shown = row(registry.variant("M-DP-1"), exhibits()["m-dp-1"], limit=5)
    >>> shown.found.klass, shown.found.check, shown.twin.verdict, shown.wrong
    ('HANG:COLLECTIVE:MISSING_RANK', 'ledger', 'proven', [])
    >>> [one.runs for one in shown.searches["random"]]
    [1, 1, 1, 1, 1]

Prior art: SCTBench's tables of schedules to the first bug; MPI-BugBench, which judges false alarms too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from dpsim.campaign.bounds import OF_LIMITS
from dpsim.campaign.in_time import failure_in_time
from dpsim.campaign.interrupts import with_done
from dpsim.campaign.reached import Reached
from dpsim.campaign.repeats import Repeats
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding, matches
from dpsim.contract import registry
from dpsim.contract.registry import VariantEntry
from dpsim.contract.schedule import OutOfTime, Strategy
from dpsim.diagnose.words import text
from dpsim.explore import STRATEGIES, Budget, Exploration, Picker, Problem, Search, explore, search
from dpsim.scenario import Scenario, ScenarioError, load_scenario, scenario_from
from dpsim.scenario.locate import ScenarioNotFound, bundled_files
from dpsim.sim.hosts.overtime import interrupted

FOLDER = "museum/"
LIMIT = 200
SEEDS = 5
TWIN_LIMIT = 1_000
REPEATED = ("portfolio", "dpor")  # they make proofs, so some runs are repeated
HARMLESS_LIMIT = 5_000
"""The largest number of schedules of a variant that should be harmless, because only a proof shows this."""


@dataclass
class Row:
    """The result for a variant. `searches` has, by strategy, one exploration for each seed; only DPOR for a harmless
    variant. `instead` lists other classes that came before `found`. `broken` is a finding in the twin. `subjects` are
    the programs of variant and twin; empty for a row from another machine.
    """

    entry: VariantEntry
    file: Path
    searches: dict[str, list[Exploration]]
    found: Finding | None
    instead: list[str]
    twin: Exploration
    broken: Finding | None
    subjects: tuple[Subject, ...]

    @property
    def wrong(self) -> list[str]:
        """Lines about how the result differs from what is registered."""
        expected, found, lines = self.entry.expected, self.found, list[str]()
        if expected is None and found is not None:
            lines.append(f"nothing was expected ({self.entry.reason}), got {found.klass}: {text(found.message)}")
        if expected is not None and found is None:
            got = f"got {', '.join(self.instead)}" if self.instead else "nothing was found by any strategy"
            lines += [f"expected {expected}, {got}"]
        if self.broken is not None:
            got = f"does not hold: {self.broken.klass}: {text(self.broken.message)}"
            lines.append(f"its twin, the same world without it, {got}")
        return lines


# ---- exhibits


def exhibits(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Returns the exhibits of dpsim and of `folders` by variant in lower case. Raises ScenarioNotFound."""
    found = {name.removeprefix(FOLDER): file for name, file in bundled_files().items() if name.startswith(FOLDER)}
    for folder in folders:
        if not folder.is_dir():
            raise ScenarioNotFound(f"{folder}: no such folder; expected one with exhibits in it")
        found |= {file.stem.lower(): file for file in sorted(folder.glob("*.yaml"))}
    return found


def chosen(patterns: Sequence[str] = ()) -> list[VariantEntry]:
    """Returns the variants that a pattern selects, in any case; all without patterns. Raises UnknownName for none."""
    entries = registry.variants()
    for pattern in patterns:
        if not any(fnmatchcase(entry.name.lower(), pattern.lower()) for entry in entries):
            registry.variant(pattern)
    lower = [pattern.lower() for pattern in patterns or ["*"]]
    return [entry for entry in entries if any(fnmatchcase(entry.name.lower(), pattern) for pattern in lower)]


def exhibit(entry: VariantEntry, file: Path) -> Scenario:
    """Returns the scenario that shows a variant. Raises ScenarioError if it is unreadable or shows another one."""
    scenario = load_scenario(file)
    if scenario.protocol.variant != entry.name:
        runs = scenario.protocol.variant or "no variant"
        expected = f"expected {entry.name}, after which the file is named"
        raise ScenarioError(f"{file}: protocol.variant: {expected}; got {runs}")
    bound = next((key for key in OF_LIMITS if getattr(scenario.limits, key) is not None), None)
    if bound is not None:
        raise ScenarioError(f"{file}: limits.{bound}: the museum explores without bounds; leave it out")
    return scenario


def without_variant(scenario: Scenario) -> Scenario:
    """Returns the twin: the same scenario in the variant's form without the bug, or with the healthy variant."""
    twin = registry.variant(scenario.protocol.variant).twin if scenario.protocol.variant else ""
    choice = {"form": scenario.protocol.resolved_form, "variant": twin or None}
    return scenario_from({**dict(scenario), "protocol": {**dict(scenario.protocol), **choice}})


# ---- exploring exhibits


def row(entry: VariantEntry, file: Path, limit: int = LIMIT, expired: Callable[[], bool] = lambda: False) -> Row:
    """Explores a variant and its twin. Raises ScenarioError for an invalid exhibit, and OutOfTime once `expired`."""
    return row_of(entry, exhibit(entry, file), file, limit, expired)


def row_of(
    entry: VariantEntry, scenario: Scenario, file: Path, limit: int, expired: Callable[[], bool] = lambda: False
) -> Row:
    """Explores a variant and its twin, given the exhibit."""
    subject = Subject.of(scenario, file.parent)
    wanted = entry.expected or "*"
    limit = limit if entry.expected is not None else max(limit, HARMLESS_LIMIT)
    often = {name: seeds(name) for name in STRATEGIES} if entry.expected is not None else {"dpor": 1}
    seen: dict[str, Finding] = {}
    searches = {
        name: [
            seek(subject, search(name, seed), wanted, limit, seen, expired, name in REPEATED) for seed in range(count)
        ]
        for name, count in often.items()
    }
    caught = [finding for klass, finding in seen.items() if matches(klass, wanted)]
    instead = [klass for klass in seen if not matches(klass, wanted)]
    broken: dict[str, Finding] = {}
    healthy = Subject.of(without_variant(scenario), file.parent)
    twin = seek(healthy, search("dpor"), "*", TWIN_LIMIT, broken, expired, repeats=True)
    in_time(healthy, twin, broken)
    if entry.expected is None:
        in_time(subject, searches["dpor"][0], seen)
        caught = [*seen.values()]
    first, worst = next(iter(caught), None), next(iter(broken.values()), None)
    return Row(entry, file, searches, first, instead, twin, worst, (subject, healthy))


def seeds(strategy: str) -> int:
    """Returns how often a strategy searches: a strategy without random numbers would repeat itself."""
    return SEEDS if STRATEGIES[strategy].seeded else 1


def seek(
    subject: Subject,
    by: Search,
    wanted: str,
    limit: int,
    seen: dict[str, Finding],
    expired: Callable[[], bool] = lambda: False,
    repeats: bool = False,
) -> Exploration:
    """Runs schedules up to the first whose primary finding has a class. `seen` receives the first of each class.
    `repeats`: repeats some runs, as every exploration does. Raises OutOfTime once the time has `expired`.
    """

    def tick(step: int) -> None:
        if expired():
            raise OutOfTime

    again = Repeats(replace(subject, repeats=repeats), tick)
    reached = Reached()
    number = 0

    def once(strategy: Strategy) -> list[Problem]:
        nonlocal number
        number += 1
        again.before(number)
        run, findings = subject.run(strategy, tick)
        reached.note(subject.program, run.journals)
        assert isinstance(strategy, Picker)
        unlike = again.after(run, strategy.schedule, bool(findings))
        findings = findings if unlike is None else [unlike.finding]
        if not findings:
            return []
        seen.setdefault(findings[0].klass, findings[0])
        return [Problem(findings[0].klass, findings[0].klass)] if matches(findings[0].klass, wanted) else []

    found = explore(once, by, Budget(limit, expired=expired))
    found.probes, found.decided = reached.probes, reached.decided
    if expired():
        raise OutOfTime
    return found


def in_time(subject: Subject, found: Exploration, seen: dict[str, Finding]) -> None:
    """Judges the timed run of a scenario that should hold, because no search replaces that run."""
    failure = failure_in_time(subject)
    if failure is not None and not found.failures:
        found.failures[failure.problem.what], found.verdict = failure, "violated"
        seen.setdefault(failure.problem.klass, failure.problem.evidence[1][0])


@dataclass
class Exhibition:
    """All results. `without`: variants without an exhibit. `left`: those for which the time did not suffice."""

    rows: list[Row]
    without: list[str]
    limit: int
    left: list[str] = field(default_factory=list)

    @property
    def as_registered(self) -> bool:
        return not any(row.wrong for row in self.rows)


Elsewhere: TypeAlias = Callable[
    [Sequence[VariantEntry], Mapping[str, Path], int, float | None], Iterator[tuple[int, Row]]
]
"""A function that makes rows on other machines, each with the number of its variant, in any order."""


def exhibition(
    entries: Sequence[VariantEntry],
    files: Mapping[str, Path],
    limit: int = LIMIT,
    progress: Callable[[int, int], None] | None = None,
    seconds: float | None = None,
    elsewhere: Elsewhere | None = None,
) -> Exhibition:
    """Returns the rows of all variants with an exhibit, as far as the time suffices. `elsewhere` makes rows on other
    machines. Raises ScenarioNotFound without any exhibit, and ScenarioError for an invalid one. A KeyboardInterrupt
    carries the rows so far (`Exhibition`) as its `done`.
    """
    shown = [entry for entry in entries if entry.name.lower() in files]
    without = [entry.name for entry in entries if entry.name.lower() not in files]
    if not shown:
        raise ScenarioNotFound(_nothing_to_show(without))
    end = None if seconds is None else time.monotonic() + seconds
    done = Exhibition([], without, limit, [entry.name for entry in shown])

    def expired() -> bool:
        return end is not None and time.monotonic() > end

    made: dict[int, Row] = {}
    try:
        with nullcontext() if end is None or elsewhere is not None else interrupted(expired):
            rows = (
                ((number, row(entry, files[entry.name.lower()], limit, expired)) for number, entry in enumerate(shown))
                if elsewhere is None
                else elsewhere(shown, files, limit, end)
            )
            for number, one in rows:
                made[number] = one
                done.rows = [made[number] for number in sorted(made)]
                done.left = [entry.name for number, entry in enumerate(shown) if number not in made]
                if progress is not None:
                    progress(len(done.rows), len(shown))
    except OutOfTime:
        pass
    except KeyboardInterrupt as error:
        with_done(error, done)
        raise
    return done


def _nothing_to_show(variants: Sequence[str]) -> str:
    """Names the files to write for these variants. Without any, no variant is registered."""
    if not variants:
        return "nothing to show: none of the exhibits is named after a variant"
    names = ", ".join(f"{name.lower()}.yaml" for name in variants)
    one = len(variants) == 1
    which, own = ("this scenario", variants[0]) if one else ("such a scenario", "the name of its variant")
    return (
        f"nothing to show: none of the exhibits is named {names}; write {which}, with protocol.variant: {own}, and "
        "give its folder by --exhibits"
    )
