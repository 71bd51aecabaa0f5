"""The museum as a table: what finds each known mistake, after how many schedules, and does its healthy twin hold?

A check that has never caught anything proves nothing, and neither does one that also fires where nothing is wrong. So
each registered variant (`dpsim.registry`, `dpsim/museum/`) has an *exhibit*: a scenario file with the smallest world
that shows it, named after it in lower case (`scenarios/museum/m-dp-1.yaml` for M-DP-1; `dpsim run museum/m-dp-1` runs
it). For each of them

* every strategy of exploration looks for a schedule whose primary finding is of the class that is registered. A
  strategy that draws random numbers does so with `SEEDS` seeds. Misses are part of the table, and so is the random
  walk: on shallow mistakes it is hard to beat (Thomson, Donaldson and Betts, TOPC 2016);
* the *twin*, the same world and form without the variant, is explored as well, and nothing may be wrong in it;
* a variant that harms nothing but speed is explored for findings of any class, and there must be none.

    >>> shown = row(registry.variant("M-DP-1"), exhibits()["m-dp-1"], limit=5)
    >>> shown.found.klass, shown.found.check, shown.twin.verdict, shown.wrong
    ('HANG:COLLECTIVE:MISSING_RANK', 'ledger', 'proven', [])
    >>> cell(shown.searches["random"], limit=5)
    '1'

Prior art: SCTBench's tables of schedules to the first bug; MPI-BugBench, which judges false alarms too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dpsim import registry
from dpsim.checks.finding import Finding, matches
from dpsim.console import columns
from dpsim.exploration import Explored, Subject, explore_subject
from dpsim.explore import STRATEGIES, Budget, Exploration, Problem, Search, explore, search
from dpsim.explore.portfolio import Portfolio
from dpsim.explore.walks import Sampling
from dpsim.registry import VariantEntry
from dpsim.scenario import Scenario, ScenarioError, load_scenario, scenario_from
from dpsim.scenario.locate import ScenarioNotFound, bundled_scenarios, scenario_path
from dpsim.schedule import Strategy

FOLDER = "museum/"
LIMIT = 200
SEEDS = 5
TWIN_LIMIT = 1_000


@dataclass
class Row:
    """What is known of a variant. `searches`: by strategy, one for each seed; of a variant that is not to be found,
    the portfolio's alone. They end at `found`; `instead`: other classes that were the primary one of a schedule before.
    """

    entry: VariantEntry
    file: Path
    searches: dict[str, list[Exploration]]
    found: Finding | None
    instead: list[str]
    twin: Explored

    @property
    def wrong(self) -> list[str]:
        """In what it is not as registered."""
        lines, expected, found = [], self.entry.expected, self.found
        if expected is None and found is not None:
            lines.append(f"nothing was expected ({self.entry.reason}), came {found.klass}: {found.message}")
        if expected is not None and found is None:
            came = f"came {', '.join(self.instead)}" if self.instead else "nothing was found by any strategy"
            lines.append(f"expected {expected}, {came}")
        if self.twin.findings:
            finding = self.twin.findings[0]
            lines.append(f"its twin, the same world without it, does not hold: {finding.klass}: {finding.message}")
        return lines


# ---- exhibits


def exhibits(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """The files of exhibits, by the variant's name in lower case: those of dpsim, and the YAML files of `folders`.

    Raises ScenarioNotFound for a folder that is none.
    """
    names = [name for name in bundled_scenarios() if name.startswith(FOLDER)]
    found = {name.removeprefix(FOLDER): scenario_path(f"{name}.yaml") for name in names}
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
        raise ScenarioError(
            f"{file}: protocol.variant: expected {entry.name}, after which the file is named; got {runs}"
        )
    return scenario


def without_variant(scenario: Scenario) -> Scenario:
    """The twin: the same world, in the form that the variant was made from."""
    choice = {"name": scenario.protocol.name, "form": scenario.protocol.resolved_form}
    return scenario_from({**dict(scenario), "protocol": choice})


# ---- exploring them


def row(entry: VariantEntry, file: Path, limit: int = LIMIT) -> Row:
    """Explore a variant and its twin. `limit`: schedules that each search may run.

    Raises ScenarioError for an exhibit that cannot be used.
    """
    scenario = exhibit(entry, file)
    subject = Subject.of(scenario, file.parent)
    wanted = entry.expected or "*"
    often = {name: seeds(name) for name in STRATEGIES} if entry.expected is not None else {"portfolio": 1}
    seen: dict[str, Finding] = {}
    searches = {
        name: [seek(subject, search(name, seed), wanted, limit, seen) for seed in range(count)]
        for name, count in often.items()
    }
    caught = [finding for klass, finding in seen.items() if matches(klass, wanted)]
    instead = [klass for klass in seen if not matches(klass, wanted)]
    twin = explore_subject(Subject.of(without_variant(scenario), file.parent), schedules=TWIN_LIMIT)
    return Row(entry, file, searches, caught[0] if caught else None, instead, twin)


def seeds(strategy: str) -> int:
    """How often a strategy searches: one that draws no random numbers would do the same again."""
    return SEEDS if issubclass(STRATEGIES[strategy], Sampling | Portfolio) else 1


def seek(subject: Subject, search: Search, wanted: str, limit: int, seen: dict[str, Finding]) -> Exploration:
    """Run schedules up to the first whose primary finding is of a class. The first of each class goes to `seen`."""
    machine = subject.machine()

    def once(asked: Strategy) -> list[Problem]:
        _, findings = subject.on(machine, asked)
        if not findings:
            return []
        seen.setdefault(findings[0].klass, findings[0])
        return [Problem(findings[0].klass, findings[0].klass)] if matches(findings[0].klass, wanted) else []

    return explore(once, search, Budget(limit))


@dataclass
class Exhibition:
    """All that was asked for. `without`: names of variants that have no exhibit."""

    rows: list[Row]
    without: list[str]
    limit: int

    @property
    def as_registered(self) -> bool:
        return not any(row.wrong for row in self.rows)


def exhibition(
    entries: Sequence[VariantEntry],
    files: Mapping[str, Path],
    limit: int = LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> Exhibition:
    """The rows of all variants that have an exhibit. `progress(done, total)` is called after each.

    Raises ScenarioNotFound if there is no exhibit at all, and what `row` raises.
    """
    shown = [entry for entry in entries if entry.name.lower() in files]
    without = [entry.name for entry in entries if entry.name.lower() not in files]
    if not shown:
        names = ", ".join(f"{name.lower()}.yaml" for name in without)
        raise ScenarioNotFound(f"nothing to show: none of the exhibits is named {names or 'after a variant'}")
    rows = []
    for entry in shown:
        rows.append(row(entry, files[entry.name.lower()], limit))
        if progress is not None:
            progress(len(rows), len(shown))
    return Exhibition(rows, without, limit)


# ---- as text


def as_text(shown: Exhibition) -> str:
    """The table, what each strategy did in all, and the verdict last."""
    limit = shown.limit
    lines = columns(
        [("entry", "class", "by", "twin", "schedules until found"), *(_cells(row, limit) for row in shown.rows)]
    )
    sought = [row for row in shown.rows if row.entry.expected is not None]
    if sought:
        total = [(name, [one for row in sought for one in row.searches[name]]) for name in STRATEGIES]
        head = ("strategy", "searches", "found", "median", "worst")
        lines += ["", *columns([head, *((name, *_total(searches, limit)) for name, searches in total)])]
        lines += [
            "",
            "twin: the same world without the variant, after so many schedules. Until found: the median, after",
        ]
        lines += [
            f"a slash the worst of {SEEDS} seeds; >{limit}: not in so many; -: in no schedule that the strategy has."
        ]
    harmless = [(f"{row.entry.name}:", row.entry.reason) for row in shown.rows if row.entry.expected is None]
    lines += ["", "registered as harmless, since", *columns(harmless)] if harmless else []
    lines += ["", f"without an exhibit: {', '.join(shown.without)}"] if shown.without else []
    lines += ["", *(f"{row.entry.name} is not as registered: {problem}" for row in shown.rows for problem in row.wrong)]
    good = sum(not row.wrong for row in shown.rows)
    return "\n".join([*lines, f"{good} of {len(shown.rows)} variants are as registered"])


def _cells(row: Row, limit: int) -> tuple[str, str, str, str, str]:
    found, twin = row.found, row.twin.exploration
    return (
        row.entry.name,
        found.klass if found else "-",
        found.check if found else "-",
        f"{twin.verdict} ({twin.runs})",
        _needed(row, limit),
    )


def _needed(row: Row, limit: int) -> str:
    if row.entry.expected is None:
        (searched,) = row.searches["portfolio"]
        return f"{searched.verdict} ({searched.runs})" + ("" if row.found else ", nothing to find")
    cells = {name: cell(searches, limit) for name, searches in row.searches.items()}
    texts = list(cells.values())
    same = texts.count(texts[0]) == len(texts)
    also = f"; also {', '.join(row.instead)}" if row.instead else ""
    return (f"{texts[0]} by every strategy" if same else " ".join(map(":".join, cells.items()))) + also


def cell(searches: Sequence[Exploration], limit: int) -> str:
    """The median of some searches, and after a slash the worst if it is another."""
    middle, worst = (_schedules(one, limit) for one in _middle_and_worst(searches))
    return middle if middle == worst else f"{middle}/{worst}"


def _total(searches: Sequence[Exploration], limit: int) -> tuple[str, str, str, str]:
    found = sum(one.verdict == "violated" for one in searches)
    middle, worst = _middle_and_worst(searches)
    return str(len(searches)), str(found), _schedules(middle, limit), _schedules(worst, limit)


def _middle_and_worst(searches: Sequence[Exploration]) -> tuple[Exploration, Exploration]:
    """A miss is worse than any that found it."""
    order = sorted(searches, key=lambda one: (one.verdict != "violated", one.runs))
    return order[(len(order) - 1) // 2], order[-1]


def _schedules(searched: Exploration, limit: int) -> str:
    if searched.verdict == "violated":
        return str(searched.runs)
    return f">{limit}" if searched.runs >= limit else "-"


# ---- as data


def as_json(shown: Exhibition) -> dict[str, Any]:
    """The same as plain data. In `schedules`, a median or worst of null is a miss."""
    return {
        "limit": shown.limit,
        "entries": [_entry(row) for row in shown.rows],
        "without_exhibit": shown.without,
        "as_registered": shown.as_registered,
    }


def _entry(row: Row) -> dict[str, Any]:
    found, twin = row.found, row.twin
    return {
        "id": row.entry.name,
        "exhibit": str(row.file),
        "class": row.entry.expected,
        "reason": row.entry.reason or None,
        "found": found.klass if found else None,
        "by": found.check if found else None,
        "instead": row.instead,
        "schedules": {name: _statistics(searches) for name, searches in row.searches.items()},
        "twin": {
            "verdict": twin.verdict,
            "schedules": twin.exploration.runs,
            "class": twin.findings[0].klass if twin.findings else None,
        },
        "wrong": row.wrong,
    }


def _statistics(searches: Sequence[Exploration]) -> dict[str, Any]:
    middle, worst = (one.runs if one.verdict == "violated" else None for one in _middle_and_worst(searches))
    missed = sum(one.verdict != "violated" for one in searches)
    return {"median": middle, "worst": worst, "searches": len(searches), "missed": missed}
