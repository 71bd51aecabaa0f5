"""Prints an exploration: a block of text for each scenario, and the same as JSON.

    scenario   wake
    schedules  9 in 9 classes; on average 6.8 choices
    races      4 of 4 pairs of sites seen in both orders
    probes     2 of 2 reached

    PROVEN  holds in every schedule of this world
    assumes: no rank dies; unlimited residency; unlimited launch queue; no other effect of hardware
    expected: held; met

A violation is printed as a run is, followed by its schedule and the commands that repeat the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsim.campaign.to_prove import to_prove
from dpsim.checks.classes import json_of
from dpsim.checks.expected import Expected
from dpsim.cli import explore_against
from dpsim.cli.console import columns, painted
from dpsim.cli.run_text import params_row
from dpsim.cli.unchecked import unchecked_schedules
from dpsim.contract.words import counted, with_services
from dpsim.diagnose.evidence import Extras, evidence
from dpsim.diagnose.variants import extras_of_choice
from dpsim.explore.explorer import Exploration, Failure

if TYPE_CHECKING:
    from dpsim.campaign.explored import Explored, Shown
    from dpsim.scenario import Scenario

PAIRS_SHOWN = 5

VERDICTS = ("proven", "bounded", "sampled", "vacuous", "violated", "refuted", "lost")


def table(explored: Explored) -> list[tuple[str, str]]:
    """Returns names and values of the table, as text."""
    found = explored.exploration
    rows = [("schedules", schedules_text(found))]
    both, pairs = found.both_orders
    one_way = [pair for pair in sorted(found.races) if pair[::-1] not in found.races]
    if pairs:
        rows.append(("races", f"{both} of {counted(pairs, 'pair')} of sites seen in both orders"))
        rows += [("", f"only {one} before {other}") for one, other in one_way[:PAIRS_SHOWN]]
        rows += [("", f"and {counted(len(one_way) - PAIRS_SHOWN, 'more pair')}")] if len(one_way) > PAIRS_SHOWN else []
    probes = explored.subject.probes
    others = [probe for probe in found.probed() if probe not in probes]
    if probes:
        missed = [probe for probe in probes if not found.probes[probe]]
        never = f"; never: {', '.join(missed)}" if missed else ""
        also = f"; also {', '.join(others)}" if others else ""
        rows.append(("probes", f"{len(probes) - len(missed)} of {len(probes)} reached{never}{also}"))
    elif others:
        rows.append(("probes", f"none declared; reached: {', '.join(others)}"))
    return rows


def schedules_text(found: Exploration, noun: str = "") -> str:
    """Returns the number of schedules, of their classes, and of the choices of a schedule. `noun`: " schedules".

    >>> schedules_text(Exploration(runs=4, steps=10, redundant=1, classes={1, 2, 3}))
    '4 in 3 classes; 1 of them redundant; on average 2.5 choices'
    >>> schedules_text(Exploration("proven", runs=1, classes={1}), " schedule")
    '1 schedule, the only one: nothing here can come in another order'
    """
    if found.runs == 1 and not found.steps and found.verdict == "proven":
        return f"1{noun}, the only one: nothing here can come in another order"
    parts = [f"{found.runs:,}{noun} in {counted(len(found.classes), 'class', 'classes')}"]
    parts += [f"{found.redundant:,} of them redundant"] * bool(found.redundant)
    parts += [f"{found.cut:,} of them cut off"] * bool(found.cut)
    if found.runs == 1:
        parts.append(counted(found.steps, "choice") if found.steps else "no choice")
    elif found.steps:
        parts.append(f"on average {found.steps / found.runs:.1f} choices")
    return "; ".join(parts)


def verdict_line(explored: Explored) -> str:
    """Returns the verdict on one line, for a scenario without a failure. A refuted proof has no claim."""
    if explored.verdict == "refuted":
        return explore_against.lines(explored.against)[0]
    return f"{explored.verdict.upper()}  {explored.exploration.claim()}"


def assumes_line(assumes: Sequence[str]) -> list[str]:
    """Returns the line of assumptions, or no line if there are none.

    >>> assumes_line(("no rank dies", "unlimited residency")), assumes_line(())
    (['assumes: no rank dies; unlimited residency'], [])
    """
    return [f"assumes: {'; '.join(assumes)}"] if assumes else []


def expectation_line(expected: Expected, unmet: str | None, verdict: str = "") -> str:
    """Returns the line that names the expectation, and whether the outcome meets it. If the `verdict` is "sampled" or
    "bounded", the line names the expectation that demands a proof.

    >>> expectation_line(Expected(), None, "sampled")
    'expected: held; met (`expect: {explored: proven}` would demand a proof)'
    """
    short = unmet is None and verdict in ("sampled", "bounded") and expected.verdict == "held"
    met = "met" + " (`expect: {explored: proven}` would demand a proof)" * short
    return f"expected: {expected}; " + (met if unmet is None else f"NOT met: {unmet}")


def as_text(
    explored: Explored,
    scenario: Scenario,
    next: Callable[[Failure], tuple[str, ...]] = lambda failure: (),
    full: bool = False,
    goes_on: str = "",
    all_failures: bool = False,
) -> str:
    """Returns the block of one scenario. `next`: the commands for a failure. `goes_on`: the command that goes on after
    a limit. `all_failures`: the search continued, so the number of schedules that fail has a meaning.
    """
    world = explored.subject.world

    def named(text: str) -> str:
        return with_services(text, world.size, world.services)

    own = [("scenario", scenario.name), *params_row(scenario)]  # not `named`: parameters have plain numbers
    rows = [*own, *((name, named(value)) for name, value in table(explored))]
    failed = bool(explored.shown)
    lines: list[str] = []
    for number, shown in enumerate(explored.shown, 1):
        if len(explored.shown) > 1:
            lines += (
                ["", f"failure {number} of {len(explored.shown)}", ""]
                if number > 1
                else [f"failure 1 of {len(explored.shown)}", ""]
            )
        extras = _extras(explored, shown, scenario, next(shown.failure))
        lines.append(painted(named(shown.report(extras, full)), good=False))
    if failed:
        found = explored.exploration
        in_a_line = schedules_text(found, " schedule" if found.runs == 1 else " schedules")
        seen = sum(one.seen for one in found.failures.values() if one.problem.evidence is None)
        if all_failures and seen:
            rows.append(("failing", f"{seen:,} of {counted(found.runs, 'schedule')} fail{'s' * (seen == 1)}"))
        lines += [
            "",
            *columns(
                rows
                if full
                else [("explored", f"{scenario.name}: {named(in_a_line)}"), *rows[-1:] * (rows[-1][0] == "failing")]
            ),
        ]
    if explored.failure is None or explored.exploration.lost:
        lines += map(named, [*_verdict(explored), *unchecked_schedules(explored, scenario)])
    if explored.verdict != "refuted":
        lines += explore_against.lines(explored.against)
    return "\n".join(lines if failed else [*lines, "", *columns(rows), *next_line(rows, goes_on)])


def next_line(rows: Sequence[tuple[str, str]], command: str) -> list[str]:
    """Returns the line below the table `rows` that names a command. It is never wrapped, so that a user can copy it.

    >>> next_line([("scenario", "x")], "dpsim explore x"), next_line([("scenario", "x")], "")
    (['next      dpsim explore x'], [])
    """
    return [f"{'next'.ljust(max(len(name) for name, _ in rows))}  {command}"] if command else []


def _verdict(explored: Explored) -> list[str]:
    """For a sampled verdict, the table names the command that goes on."""
    found = explored.exploration
    polls = found.polls if explored.verdict in ("sampled", "bounded") else ""
    bound = to_prove(found) if explored.verdict == "bounded" and not (polls or found.unfinished) else ""
    refuted = explore_against.lines(explored.against) if explored.verdict == "refuted" else []
    return [
        *(refuted or [painted(verdict_line(explored), good=not found.lost)]),
        *assumes_line(explored.assumes),
        *([f"polls: {polls}"] if polls else []),
        *([f"bound: {bound}"] if bound else []),
        *found.stood.replace("\n", "\n  ").splitlines(),
    ]


def totals(all_explored: Sequence[Explored]) -> str:
    """Returns the verdicts of several scenarios on one line.

    >>> totals([])
    '0 scenarios'
    """
    verdicts = Counter(explored.verdict for explored in all_explored)
    counts = ", ".join(f"{verdicts[word]} {word}" for word in VERDICTS if verdicts[word])
    return counted(len(all_explored), "scenario") + (f": {counts}" if counts else "")


def as_json(
    explored: Explored, scenario: Scenario, traces: Mapping[str, Path], limit: str = "", goes_on: str = ""
) -> dict[str, Any]:
    """Returns plain data. `traces`: by fingerprint. `limit`: what ended the search. `goes_on`: the command after it."""
    found, failure = explored.exploration, explored.failure
    primary = explored.findings[0] if explored.findings else None
    both, pairs = found.both_orders
    return {
        "scenario": scenario.name,
        "verdict": str(explored.verdict),
        "lost": found.lost or None,
        "assumes": list(explored.assumes),
        "no_other_effect": list(explored.beside),
        "touched": [one.as_json() for one in explored.facts.outside],
        "met": explored.unmet is None,
        "unmet": explored.unmet,
        "limit": limit or None,
        "schedules": found.runs,
        "classes": len(found.classes),
        "redundant": found.redundant,
        "cut": found.cut,
        "unended": found.unended,
        "longest": found.longest,
        "within": found.within or None,
        "unfinished": found.unfinished or None,
        "progress": None if explored.how_far is None else explored.how_far.as_json(),
        "stood": found.stood or None,
        "new_per_hundred": round(found.new_per_hundred, 1),
        "races": {"pairs": pairs, "both_orders": both},
        "probes": {probe: found.probes[probe] for probe in dict.fromkeys([*explored.subject.probes, *found.probes])},
        "failures": [
            {
                **json_of(one.failure.problem.klass),
                "what": one.failure.problem.what,
                "fingerprint": one.failure.fingerprint,
                "by": one.failure.by,
                "first": one.failure.first,
                "seen": one.failure.seen,
                "schedule": one.failure.normal,
                "confirmed": one.confirmed,
                "trace": str(traces[one.failure.fingerprint]) if one.failure.fingerprint in traces else None,
            }
            for one in explored.shown
        ],
        **json_of(failure.problem.klass if failure else None),
        "culprit": None if primary is None or primary.culprit is None else str(primary.culprit),
        **_evidence(explored, scenario, goes_on),
        "against": explore_against.as_json(explored.against),
        "confirmed": explored.confirmed if failure else None,
        "trace": str(traces[failure.fingerprint]) if failure and failure.fingerprint in traces else None,
    }


def _evidence(explored: Explored, scenario: Scenario, goes_on: str) -> dict[str, Any]:
    """Returns the evidence keys for the first failure, if a run shows it; else with the command that goes on."""
    if not explored.shown:
        return evidence(None, (), extras_of_choice(scenario.protocol)) | {"next": [goes_on] * bool(goes_on)}
    shown = explored.shown[0]
    return evidence(shown.run, explored.findings, _extras(explored, shown, scenario, ()))


def _extras(explored: Explored, shown: Shown, scenario: Scenario, commands: tuple[str, ...]) -> Extras:
    from dpsim.campaign.alternatives import of_shown

    return of_shown(extras_of_choice(scenario.protocol, *commands), explored.subject, shown, scenario)
