"""The museum as a table: what finds each known mistake, after how many schedules, and does its healthy twin hold?

A check that never caught a mistake proves nothing, and neither does one that also reports healthy programs. So each
registered variant (`dpsim.contract.registry`) has an *exhibit*: a scenario file with the smallest world that shows it,
and the variant's name in lower case. The file of M-DP-1 is `scenarios/museum/m-dp-1.yaml`, and `dpsim run
museum/m-dp-1` runs it. For each variant

* every strategy of exploration looks for a schedule whose primary finding has the registered class. A strategy that
  draws random numbers runs with `SEEDS` seeds. The table includes failed searches, and the random walk, which finds
  shallow mistakes as fast as others (Thomson, Donaldson and Betts, TOPC 2016);
* dpsim explores the *twin*, the same world and form without the variant, and must find no violation. Some mistakes need
  a feature that the protocol lacks; then a healthy variant with this feature is the twin;
* dpsim explores a variant that only costs speed, and must find no violation.

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
from dpsim.explore import STRATEGIES, Budget, Exploration, Picker, Problem, Search, explore, search
from dpsim.scenario import Scenario, ScenarioError, load_scenario, scenario_from
from dpsim.scenario.locate import ScenarioNotFound, bundled_files
from dpsim.sim.hosts.overtime import interrupted

FOLDER = "museum/"
LIMIT = 200
SEEDS = 5
TWIN_LIMIT = 1_000
REPEATED = ("portfolio", "dpor")  # they prove a world, so some runs are made again
HARMLESS_LIMIT = 5_000
"""Schedules of a variant that is expected to be harmless: only a proof says so."""


@dataclass
class Row:
    """What is known of a variant. `searches`: by strategy, one for each seed; of a variant that is not to be found,
    that of DPOR alone. They end at `found`; `instead`: other classes that were the primary one of a schedule
    before. `broken`: what was found in the twin. `subjects`: the worlds of variant and twin; none from other machines.
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
        """In what it is not as registered."""
        lines, expected, found = [], self.entry.expected, self.found
        if expected is None and found is not None:
            lines.append(f"nothing was expected ({self.entry.reason}), came {found.klass}: {found.message}")
        if expected is not None and found is None:
            came = f"came {', '.join(self.instead)}" if self.instead else "nothing was found by any strategy"
            lines.append(f"expected {expected}, {came}")
        if self.broken is not None:
            came = f"{self.broken.klass}: {self.broken.message}"
            lines.append(f"its twin, the same world without it, does not hold: {came}")
        return lines


# ---- exhibits


def exhibits(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """The files of exhibits, by the variant's name in lower case: those of dpsim, and the YAML files of `folders`.

    Raises ScenarioNotFound for a folder that is none.
    """
    found = {name.removeprefix(FOLDER): file for name, file in bundled_files().items() if name.startswith(FOLDER)}
    for folder in folders:
        if not folder.is_dir():
            raise ScenarioNotFound(f"{folder}: no such folder; expected one with exhibits in it")
        found |= {file.stem.lower(): file for file in sorted(folder.glob("*.yaml"))}
    return found


def chosen(patterns: Sequence[str] = ()) -> list[VariantEntry]:
    """The variants whose names one of the patterns selects, upper or lower case; all, if there is no pattern.

    Raises UnknownName for a pattern that selects none.
    """
    entries = registry.variants()
    for pattern in patterns:
        if not any(fnmatchcase(entry.name.lower(), pattern.lower()) for entry in entries):
            registry.variant(pattern)
    lower = [pattern.lower() for pattern in patterns or ["*"]]
    return [entry for entry in entries if any(fnmatchcase(entry.name.lower(), pattern) for pattern in lower)]


def exhibit(entry: VariantEntry, file: Path) -> Scenario:
    """The scenario that shows a variant. Raises ScenarioError for one that cannot be read, or runs something else."""
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
    """The twin: the same world, in the form that the variant was made from, or with the healthy variant that was."""
    twin = registry.variant(scenario.protocol.variant).twin if scenario.protocol.variant else ""
    choice = {"form": scenario.protocol.resolved_form, "variant": twin or None}
    return scenario_from({**dict(scenario), "protocol": {**dict(scenario.protocol), **choice}})


# ---- exploring them


def row(entry: VariantEntry, file: Path, limit: int = LIMIT, expired: Callable[[], bool] = lambda: False) -> Row:
    """Explore a variant and its twin. `limit`: schedules that each search for a finding may run.

    Raises ScenarioError for an exhibit that cannot be used, and OutOfTime once the time has `expired`.
    """
    return row_of(entry, exhibit(entry, file), file, limit, expired)


def row_of(
    entry: VariantEntry, scenario: Scenario, file: Path, limit: int, expired: Callable[[], bool] = lambda: False
) -> Row:
    """The same of an exhibit at hand."""
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
    """How often a strategy searches: one that draws no random numbers would do the same again."""
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
    """Run schedules up to the first whose primary finding is of a class. The first of each class goes to `seen`.
    `repeats`: some runs are made again, as in every exploration.

    Raises OutOfTime once the time has `expired`, also within a run.
    """

    def tick(step: int) -> None:
        if expired():
            raise OutOfTime

    again = Repeats(replace(subject, repeats=repeats), tick)
    reached = Reached()
    number = 0

    def once(asked: Strategy) -> list[Problem]:
        nonlocal number
        number += 1
        again.before(number)
        run, findings = subject.run(asked, tick)
        reached.note(subject.program, run.journals)
        assert isinstance(asked, Picker)
        unlike = again.after(run, asked.schedule, bool(findings))
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
    """Judge the run in time of a world that is to hold, too: no search proves what that run refutes."""
    failure = failure_in_time(subject)
    if failure is not None and not found.failures:
        found.failures[failure.problem.what], found.verdict = failure, "violated"
        seen.setdefault(failure.problem.klass, failure.problem.evidence[1][0])


@dataclass
class Exhibition:
    """All that was asked for. `without`: names of variants that have no exhibit. `left`: those that the time did not
    suffice for.
    """

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
"""Makes rows, each with the number of its variant, in any order."""


def exhibition(
    entries: Sequence[VariantEntry],
    files: Mapping[str, Path],
    limit: int = LIMIT,
    progress: Callable[[int, int], None] | None = None,
    seconds: float | None = None,
    elsewhere: Elsewhere | None = None,
) -> Exhibition:
    """The rows of all variants that have an exhibit, as far as the time suffices. `progress(done, total)` is called
    after each. `elsewhere`: makes the rows on other machines.

    Raises ScenarioNotFound if there is no exhibit at all, and ScenarioError for one that cannot be used. A
    KeyboardInterrupt has the rows so far (`Exhibition`) as its `done`.
    """
    shown = [entry for entry in entries if entry.name.lower() in files]
    without = [entry.name for entry in entries if entry.name.lower() not in files]
    if not shown:
        names = ", ".join(f"{name.lower()}.yaml" for name in without)
        raise ScenarioNotFound(f"nothing to show: none of the exhibits is named {names or 'after a variant'}")
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
