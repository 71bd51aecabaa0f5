"""Prints an exploration: a block of text for each scenario, and the same as JSON.

    scenario   wake
    schedules  9 in 9 classes, 0 redundant; 6.8 choices each
    races      4 of 4 pairs of sites seen in both orders
    probes     2 of 2 reached

    PROVEN  holds in every schedule of this world
    assumes: no rank dies; unlimited residency; unlimited launch queue; no other effect of hardware
    expected: held; met

The verdict *proven* means that the explorer tried every schedule. *Sampled* means that it tried some, and the text says
how many were new. *Bounded* means that some runs were cut off. The line `assumes` names effects that the explorer left
out. A violation is printed as a run is, followed by its schedule and the commands that repeat the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpsim.checks.expected import HELD, Expected
from dpsim.cli.console import columns, painted
from dpsim.cli.run_text import params_row
from dpsim.contract.words import counted, with_services
from dpsim.diagnose.evidence import Extras, evidence
from dpsim.diagnose.variants import extras_of_choice
from dpsim.explore.explorer import Failure
from dpsim.scenario import dump_scenario
from dpsim.scenario.swarm import Swarm

if TYPE_CHECKING:
    from dpsim.campaign.explored import Explored, Shown
    from dpsim.campaign.files import Whole
    from dpsim.scenario import Scenario
    from dpsim.scenario.parameters import Scale

PAIRS_SHOWN = 5

NO_KINDS: Mapping[str, int] = MappingProxyType({})

VERDICTS = ("proven", "bounded", "sampled", "vacuous", "violated", "lost")


def table(explored: Explored) -> list[tuple[str, str]]:
    """Returns names and values of the table, as text."""
    found = explored.exploration
    each = f"{found.steps / found.runs:.1f} choices each" if found.steps else "nothing to choose" * (found.runs < 2)
    cut = f", {found.cut:,} cut off" if found.cut else ""
    classes = counted(len(found.classes), "class", "classes")
    told = f"{found.runs:,} in {classes}, {found.redundant:,} redundant{cut}" + (f"; {each}" if each else "")
    if found.runs == 1 and not found.steps and found.verdict == "proven":
        told = "1, the only one: nothing here can come in another order"
    rows = [("schedules", told)]
    both, pairs = found.both_orders
    one_way = [pair for pair in sorted(found.races) if pair[::-1] not in found.races]
    if pairs:
        rows.append(("races", f"{both} of {counted(pairs, 'pair')} of sites seen in both orders"))
        rows += [("", f"only {one} before {other}") for one, other in one_way[:PAIRS_SHOWN]]
        rows += [("", f"and {counted(len(one_way) - PAIRS_SHOWN, 'more pair')}")] if len(one_way) > PAIRS_SHOWN else []
    probes = explored.subject.probes
    if probes:
        missed = [probe for probe in probes if not found.probes[probe]]
        never = f"; never: {', '.join(missed)}" if missed else ""
        others = sorted({fact[1] for fact in found.did if fact[0] == "probe"}.difference(probes))
        also = f"; also {', '.join(others)}" if others else ""
        rows.append(("probes", f"{len(probes) - len(missed)} of {len(probes)} reached{never}{also}"))
    return rows


def verdict_line(explored: Explored) -> str:
    """Returns the verdict on one line, for a scenario without a failure."""
    return f"{explored.verdict.upper()}  {explored.exploration.claim()}"


def assumes_line(assumes: Sequence[str]) -> list[str]:
    """Returns the line of assumptions, or no line if there are none.

    >>> assumes_line(("no rank dies", "unlimited residency")), assumes_line(())
    (['assumes: no rank dies; unlimited residency'], [])
    """
    return [f"assumes: {'; '.join(assumes)}"] if assumes else []


def expectation_line(expected: Expected, unmet: str | None) -> str:
    """Returns the line that names the expectation, and whether the outcome meets it."""
    return f"expected: {expected}; " + ("met" if unmet is None else f"NOT met: {unmet}")


def as_text(
    explored: Explored,
    scenario: Scenario,
    next: Callable[[Failure], tuple[str, ...]] = lambda failure: (),
    full: bool = False,
) -> str:
    """Returns the block of one scenario. `next`: returns the commands to suggest for a failure. `full`: all details."""
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
        lines += ["", *columns(rows if full else [("explored", f"{scenario.name}: {rows[len(own)][1]}")])]
    if explored.failure is None or explored.exploration.lost:
        lines += map(named, _verdict(explored))
    return "\n".join(lines if failed else [*lines, "", *columns(rows)])


def _verdict(explored: Explored) -> list[str]:
    """Returns the verdict, its assumptions, and the polls that prevented a proof."""
    found = explored.exploration
    polls = found.polls if explored.verdict in ("sampled", "bounded") else ""
    return [
        painted(verdict_line(explored), good=not found.lost),
        *assumes_line(explored.assumes),
        *([f"polls: {polls}"] if polls else []),
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


def as_json(explored: Explored, scenario: Scenario, traces: Mapping[str, Path]) -> dict[str, Any]:
    """Returns the exploration as plain data. `traces`: maps the fingerprint of a failure to its file."""
    found, failure = explored.exploration, explored.failure
    primary = explored.findings[0] if explored.findings else None
    both, pairs = found.both_orders
    return {
        "scenario": scenario.name,
        "verdict": found.verdict,
        "lost": found.lost or None,
        "assumes": list(explored.assumes),
        "no_other_effect": list(explored.beside),
        "met": explored.unmet is None,
        "unmet": explored.unmet,
        "schedules": found.runs,
        "classes": len(found.classes),
        "redundant": found.redundant,
        "cut": found.cut,
        "longest": found.longest,
        "within": found.within or None,
        "unfinished": found.unfinished or None,
        "progress": None if explored.standing is None else explored.standing.as_json(),
        "stood": found.stood or None,
        "new_per_hundred": round(found.new_per_hundred, 1),
        "races": {"pairs": pairs, "both_orders": both},
        "probes": {probe: found.probes[probe] for probe in explored.subject.probes},
        "failures": [
            {
                "class": one.failure.problem.klass,
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
        "class": failure.problem.klass if failure else None,
        "culprit": None if primary is None or primary.culprit is None else str(primary.culprit),
        **_evidence(explored, scenario),
        "confirmed": explored.confirmed if failure else None,
        "trace": str(traces[failure.fingerprint]) if failure and failure.fingerprint in traces else None,
    }


def _evidence(explored: Explored, scenario: Scenario) -> dict[str, Any]:
    """Returns the evidence keys for the first failure, if a run shows it."""
    if not explored.shown:
        return evidence(None, (), extras_of_choice(scenario.protocol))
    shown = explored.shown[0]
    return evidence(shown.run, explored.findings, _extras(explored, shown, scenario, ()))


def _extras(explored: Explored, shown: Shown, scenario: Scenario, commands: tuple[str, ...]) -> Extras:
    """Returns the parts of a report besides its findings."""
    from dpsim.campaign.alternatives import of_shown

    return of_shown(extras_of_choice(scenario.protocol, *commands), explored.subject, shown, scenario)


# ---- whole scopes


def whole_as_text(
    name: str, sizes: Scale, total: int, whole: Whole, possible: Mapping[str, int] = NO_KINDS, fixed: Sequence[str] = ()
) -> str:
    """Returns the block for a set of worlds: a scenario up to `sizes`, or the swarm in `sizes`; `total` worlds in all.

    `possible`: for each kind of fault, the number of swarm worlds that allow it. `fixed`: fields of one value.
    """
    drawn = isinstance(sizes, Swarm)
    failed = whole.first is not None
    said = whole_verdict(sizes, total, whole) + ":" * (failed and not whole.lost)
    holds = whole.first is None and not whole.lost and whole.explored > 0
    alone = f"{whole.alone:,} of {counted(whole.explored, 'world')}"
    order = "" if drawn else ", smaller ones first"
    rows = [
        ("scenario", name),
        ("worlds", sizes.summary() if drawn else f"all {total:,} up to {sizes.summary()}"),
        ("explored", f"{whole.explored:,} in {counted(whole.runs, 'schedule')}{order}"),
        *[("possible", _probed(possible))] * bool(possible),
        *[("probes", _probed(whole.probes))] * bool(whole.probes),
        *[("alone", f"each rank ran again in its own process in {alone}")] * holds,
    ]
    lines = [painted(said, good=whole.first is None and not whole.lost)]
    if whole.first is not None:
        world = [f"  {line}" for line in dump_scenario(whole.first.scenario).splitlines()]
        return "\n".join([*lines, "", *world, "", *columns(rows)])
    lines += [*[f"not varied: {', '.join(fixed)}"] * bool(fixed), *assumes_line(whole.assumes), "", *columns(rows)]
    if whole.unmet is not None or whole.expected != HELD:
        lines.append(expectation_line(whole.expected, whole.unmet))
    return "\n".join(lines)


def whole_verdict(sizes: Scale, total: int, whole: Whole) -> str:
    """Returns the verdict on a set of worlds, on one line."""
    if whole.lost:
        return f"LOST  world {whole.explored + 1:,} of {total:,}, and no failure before: {whole.lost}"
    if whole.first is not None:
        which = "earlier" if isinstance(sizes, Swarm) else "smaller"
        return f"VIOLATED  world {whole.explored:,} of {total:,}, and no {which} one"
    if whole.verdict == "vacuous":
        left = f"; {total - whole.explored:,} not reached in time" if whole.explored < total else ""
        return f"VACUOUS  in all these worlds no rank issued anything but decisions, sleeps and idle gets{left}"
    if whole.verdict == "proven":
        vacuous = whole.verdicts["vacuous"]
        beside = f"; {vacuous:,} vacuous, with nothing to coordinate" if vacuous else ""
        return f"PROVEN  every one of these worlds holds in every schedule{beside}"
    words = [
        f"{whole.verdicts[word]:,} {word}"
        for word in ("proven", "bounded", "sampled", "vacuous")
        if whole.verdicts[word]
    ]
    words += [f"{total - whole.explored:,} not reached in time"] if whole.explored < total else []
    return f"{whole.verdict.upper()}  no failure; {', '.join(words)}"


def _probed(probes: Mapping[str, int]) -> str:
    """Returns, for each probe, how many worlds reached it. A proof of worlds that reach no probe would mean little.

    >>> _probed({"a": 3, "b": 0, "c": 1})
    'a in 3 worlds, c in 1 world; never: b'
    """
    reached = [f"{probe} in {counted(worlds, 'world')}" for probe, worlds in probes.items() if worlds]
    never = [probe for probe, worlds in probes.items() if not worlds]
    return "; ".join([*[", ".join(reached)] * bool(reached), *[f"never: {', '.join(never)}"] * bool(never)])


def whole_as_json(
    name: str, sizes: Scale, total: int, whole: Whole, possible: Mapping[str, int] = NO_KINDS
) -> dict[str, Any]:
    """Returns the exploration of a set of worlds as plain data."""
    first = whole.first
    return {
        "scenario": name,
        "swarm" if isinstance(sizes, Swarm) else "sizes": sizes._asdict(),
        **({"possible": dict(possible)} if possible else {}),
        "worlds": total,
        "explored": whole.explored,
        "proven": whole.verdicts["proven"],
        "bounded": whole.verdicts["bounded"],
        "sampled": whole.verdicts["sampled"],
        "vacuous": whole.verdicts["vacuous"],
        "schedules": whole.runs,
        "probes": whole.probes,
        "alone": whole.alone,
        "never_applied": list(whole.never_applied),
        "assumes": list(whole.assumes),
        "lost": whole.lost or None,
        "violated": None if first is None else as_json(first.explored, first.scenario, first.traces),
    }
