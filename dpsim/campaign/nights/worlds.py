"""Worlds: the four parts of a night that explore, with one row for each scenario, or for each variant of the museum.

    scenarios   each scenario as it is written
    swarm       worlds like a scenario that holds, with drawn faults
    small       every world like it with parameters up to sizes, as far as its seconds suffice
    museum      every strategy searches for each known bug, and the same scenario without the bug has to hold

A world of a swarm has to hold, too, so it draws only what the scenario itself survives:

    delays      always. They are shorter than each time-out, unless the scenario lets time-outs pass early
    deaths      if the scenario plants some and expects that the run holds; in a copy at most as many
    time-outs   a copy has the limit `early_timeouts` of the scenario

An error because of a late peer or of a second death is right. So no copy keeps the planted faults of the scenario.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from dpsim.campaign import museum
from dpsim.campaign.coverage import Coverage
from dpsim.campaign.explored import Explored
from dpsim.campaign.files import SHARE, Options, explore_some, kept
from dpsim.campaign.nights.idle import without_sizes
from dpsim.campaign.nights.rows import Found, NightRow
from dpsim.campaign.nights.sizes import Size
from dpsim.campaign.swarm import swarm_of
from dpsim.contract.registry import VariantEntry
from dpsim.contract.schedule import OutOfTime
from dpsim.diagnose.words import told
from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.scenario.small.worlds import all_up_to
from dpsim.scenario.swarm import DEATHS, STANDS, Swarm

Base: TypeAlias = tuple[Scenario, Path]
"""A scenario, and the folder of its files."""

Limits: TypeAlias = Callable[[], Options]
"""Returns the options from now on, because the remaining seconds of the night decrease."""

AT_ONCE = 16

CUT = "its time was up before its searches ended"


def as_written(bases: Sequence[Base], size: Size, options: Limits) -> Iterator[NightRow]:
    """Yields a row for each scenario as it is written. A missing proof is no failure if only schedules were lacking."""
    for scenario, folder in bases:
        yield _row("scenarios", scenario.name, [scenario], 1, folder, size, options, _unmet)


def swarms(bases: Sequence[Base], size: Size, options: Limits) -> Iterator[NightRow]:
    """Yields a row for each swarm. The worlds of the night are shared among the scenarios that should hold."""
    healthy = [base for base in bases if _holds(base[0])]
    for number, (scenario, folder) in enumerate(healthy):
        worlds = size.worlds // len(healthy) + (number < size.worlds % len(healthy))
        if not worlds:
            continue
        seed = options().seed
        deaths = sum(fault.kind in DEATHS for fault in scenario.faults)
        asked = Swarm(worlds, STANDS if deaths else ("delay",), deaths)
        try:
            base = without_faults(scenario).in_folder(folder)
            in_time = not scenario.limits.early_timeouts
            drawn = [one.scenario for one in swarm_of(base, folder, asked, seed, in_time)]
        except ScenarioError as error:
            yield NightRow(part="swarm", name=scenario.name, left_out=str(error))
            continue
        row = _row("swarm", scenario.name, drawn, len(drawn), folder, size, options, _violates)
        yield row.model_copy(update={"seed": seed})


def small_worlds(bases: Sequence[Base], size: Size, options: Limits, sizes: str | None) -> Iterator[NightRow]:
    """Yields a row for the small worlds of each scenario that should hold. `sizes`: None for its own sizes."""
    for scenario, folder in bases:
        up_to = sizes or scenario.small_sizes
        if not _holds(scenario):
            continue
        if not up_to:
            yield NightRow(part="small", name=scenario.name, left_out=without_sizes(scenario))
            continue
        try:
            small = all_up_to(without_faults(scenario).in_folder(folder), up_to)
        except ScenarioError as error:
            yield NightRow(part="small", name=scenario.name, left_out=str(error))
            continue
        yield _row(
            "small", scenario.name, islice(small.worlds(), size.small), small.total, folder, size, options, _violates
        )


def without_faults(scenario: Scenario) -> Scenario:
    """Returns the same scenario without faults, delays and messages."""
    nothing: dict[str, tuple[()]] = {"faults": (), "delays": (), "messages": ()}
    return scenario_from({**dict(scenario), **nothing, "expect": scenario.expect.of_small_worlds()})


def _holds(scenario: Scenario) -> bool:
    return scenario.protocol.variant is None and scenario.expected_of_all.verdict in ("held", "proven", "bounded")


def _unmet(one: Explored) -> str | None:
    cut_short = one.verdict == "sampled" and one.subject.expected.verdict in ("proven", "bounded")
    return None if cut_short else one.unmet


def _violates(one: Explored) -> str | None:
    """Returns the failure of a world. Planted faults need not happen in it, and it may be vacuous."""
    return one.unmet_where(()) if one.verdict == "violated" else None


def _row(
    part: str,
    name: str,
    worlds: Iterable[Scenario],
    total: int,
    folder: Path,
    size: Size,
    limits: Limits,
    unmet: Callable[[Explored], str | None],
) -> NightRow:
    start, coverage, options = time.monotonic(), Coverage(), limits()
    end = start + min(size.seconds, options.seconds or size.seconds)
    verdicts: Counter[str] = Counter()
    failures: dict[str, Found] = {}
    schedules, lost, why, rest = 0, "", "", iter(worlds)
    while time.monotonic() < end:
        try:
            some = list(islice(rest, AT_ONCE * options.jobs))
            if not some:
                break
            found = explore_some(
                [(one, folder) for one in some], options, end - time.monotonic(), share=min(total, SHARE)
            )
        except ScenarioError as error:
            why = str(error)
            failures |= {why: Found(what=why)} if part == "scenarios" else {}
            break
        for scenario, one in zip(some, found, strict=True):
            if not one.exploration.runs:  # the time was up
                continue
            coverage.add(one.subject, one.exploration)
            verdicts[one.verdict] += 1
            schedules += one.exploration.runs
            lost = lost or one.exploration.lost
            if (problem := unmet(one)) is not None and not one.exploration.lost:
                for new in _failures(name, scenario, one, problem, options):
                    failures.setdefault(new.what, new)
    return NightRow(
        part=part,
        name=name,
        verdict=_verdict(verdicts, total),
        worlds=coverage.worlds,
        schedules=schedules,
        seconds=round(time.monotonic() - start, 2),
        failures=tuple(failures.values()),
        lost=lost,
        left_out=why or ("" if coverage.worlds else "its time was up before the first schedule"),
        reached=coverage.counts,
    )


def _verdict(verdicts: Counter[str], total: int) -> str:
    """Returns the verdict of the worst world; at most "sampled" if some were not explored."""
    for word in ("lost", "violated", "sampled", "bounded", "proven", "vacuous"):
        if verdicts[word]:
            return "sampled" if word in ("bounded", "proven", "vacuous") and verdicts.total() < total else word
    return ""


def _failures(name: str, scenario: Scenario, one: Explored, problem: str, options: Options) -> Iterator[Found]:
    if not one.shown:
        yield Found(what=problem, message=problem)
        return
    traces = kept(scenario, one, options.folder).traces
    for shown in one.shown:
        trace = traces.get(shown.failure.fingerprint)
        message = told(one.subject.world, shown.findings[0]).message if shown.findings else problem
        message = message if scenario.name == name else f"{scenario.name}: {message}"
        show = "" if trace is None else f"dpsim replay {trace}"
        yield Found(what=shown.failure.problem.what, message=message, show=show)


def visits(
    entries: Sequence[VariantEntry], files: Mapping[str, Path], size: Size, expired: Callable[[], bool]
) -> Iterator[NightRow]:
    """Yields a row for one in `size.visited` variants (known bugs). One without an exhibit is left out, and an invalid
    exhibit is a failure. Raises OutOfTime once the time has `expired`, after a row that says so.
    """
    for entry in entries[:: size.visited]:
        file, start, coverage = files.get(entry.name.lower()), time.monotonic(), Coverage()
        if file is None:
            yield NightRow(part="museum", name=entry.name, left_out="it has no exhibit")
            continue
        try:
            shown = museum.row(entry, file, size.museum_schedules, expired)
        except ScenarioError as error:
            yield NightRow(part="museum", name=entry.name, failures=(Found(what=str(error)),))
            continue
        except OutOfTime:
            spent = round(time.monotonic() - start, 2)
            yield NightRow(part="museum", name=entry.name, seconds=spent, left_out=CUT)
            raise
        variant, twin = shown.subjects
        searches = [one for some in shown.searches.values() for one in some]
        coverage.add(variant, *searches)
        coverage.add(twin, shown.twin)
        yield NightRow(
            part="museum",
            name=entry.name,
            verdict="not as registered" if shown.wrong else "as registered",
            worlds=coverage.worlds,
            schedules=sum(one.runs for one in [*searches, shown.twin]),
            seconds=round(time.monotonic() - start, 2),
            failures=tuple(
                Found(what=wrong, message=wrong, show=f"dpsim museum --only {entry.name}") for wrong in shown.wrong
            ),
            reached=coverage.counts,
        )
