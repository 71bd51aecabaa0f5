"""Prints an exploration of a set of worlds: a block of text for each scenario, and the same as JSON.

    SAMPLED  no failure; 5 proven, 1 sampled
    assumes: no rank dies; unlimited residency; no other effect of hardware

    scenario  wake
    worlds    all 6 up to ranks 3, polls 2
    explored  6 worlds in 1,240 schedules, smaller ones first
    sampled   1 world, ended by --schedules 1000; the first one is world 6, params: {ranks: 3, polls: 2}
    alone     each rank ran again in its own process in 1 of 6 worlds
    next      dpsim explore wake --all-up-to ranks=3,polls=2 --schedules 10000 --strategy dpor
    expected: held; met (`expect: {explored: proven}` would demand a proof)

The lines `sampled`, `bounded` and `not begun` name the worlds that a limit cut short, and the first of them. With
`--full`, they name each of them, or the first 1,000 worlds that were not begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from dpsim.cli.console import columns, painted
from dpsim.cli.explore_text import as_json, assumes_line, expectation_line, next_line
from dpsim.contract.words import counted
from dpsim.scenario import dump_scenario
from dpsim.scenario.duration import format_duration
from dpsim.scenario.swarm import Swarm
from dpsim.scenario.yaml.writer import changed_sections

if TYPE_CHECKING:
    from dpsim.campaign.cut_short import Cut
    from dpsim.campaign.files import Options
    from dpsim.campaign.whole import Whole
    from dpsim.scenario import Scenario
    from dpsim.scenario.parameters import Scale

LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "schedules": "ended by --schedules {schedules}",
        "default": "ended by {counted}, the default of --schedules",
        "budget": "ended by --budget {budget}",
        "strategy": "because --strategy {strategy} proves nothing",
        "memory": "ended by a run of more than {bound}",
        "length": "in which dpsim cut runs off after {bound}",
        "interrupt": "ended by the interrupt",
    }
)
"""How each limit ended a search (`dpsim.campaign.cut_short`), in words. `default`: of the number of schedules."""


class AskedWorlds(NamedTuple):
    """The worlds like one scenario: `total` worlds up to `sizes`, or the swarm in it. `possible`: for each kind of
    fault, the swarm worlds that allow it. `fixed`: fields with one value in all worlds. `outside`: what the set lacks
    of the scenario itself. `by_default`: the user gave no number of schedules.
    """

    scenario: Scenario
    sizes: Scale
    total: int
    worlds: Iterable[Scenario]
    possible: Mapping[str, int] = MappingProxyType({})
    fixed: Sequence[str] = ()
    outside: str = ""
    by_default: bool = False


def as_text(asked: AskedWorlds, whole: Whole, options: Options, next: str = "", full: bool = False) -> str:
    """Returns the block for a set of worlds. If a world is violated, its block follows, and has the expectation.
    `next`: the command that goes on after a limit. `full`: with each world that a limit cut short.
    """
    drawn = isinstance(asked.sizes, Swarm)
    failed = whole.first is not None
    text = whole_verdict(asked.sizes, asked.total, whole) + ":" * (failed and not whole.lost)
    holds = whole.first is None and not whole.lost and whole.explored > 0
    alone = f"{whole.alone:,} of {counted(whole.explored, 'world')}"
    order = "" if drawn else ", smaller ones first"
    summary = asked.sizes.summary()
    rows = [
        ("scenario", asked.scenario.name),
        ("worlds", summary if drawn else f"all {asked.total:,} up to {summary}"),
        ("explored", f"{counted(whole.explored, 'world')} in {counted(whole.runs, 'schedule')}{order}"),
        *(row for cut in whole.cuts for row in _cut_rows(cut, asked, options, full)),
        *[("possible", _probed(asked.possible))] * bool(asked.possible),
        *[("probes", _probed(whole.probes))] * bool(whole.probes),
        *[("alone", f"each rank ran again in its own process in {alone}")] * holds,
    ]
    lines = [painted(text, good=whole.first is None and not whole.lost)]
    if whole.first is not None:
        world = [f"  {line}" for line in dump_scenario(whole.first.scenario).splitlines()]
        return "\n".join([*lines, "", *world, "", *columns(rows)])
    fixed = [f"not varied: {', '.join(asked.fixed)}"] * bool(asked.fixed)
    polls = [f"polls: {cut.polls}" for cut in whole.cuts if cut.polls][:1]
    outside = [f"outside of this set: {asked.outside}"] * bool(asked.outside)
    lines += [*fixed, *assumes_line(whole.assumes), *outside, *polls, "", *columns(rows)]
    return "\n".join([*lines, *next_line(rows, next), expectation_line(whole.expected, whole.unmet, whole.of_each)])


def _title(cut: Cut) -> str:
    if not cut.begun:
        return "not begun"
    return "bounded" if cut.limit == "length" else "sampled"


def _cut_rows(cut: Cut, asked: AskedWorlds, options: Options, full: bool) -> list[tuple[str, str]]:
    first = _world(cut.first, cut.scenario, asked.scenario)
    further = [("", _world(number, scenario, asked.scenario)) for number, scenario in cut.all[1:]] if full else []
    unnamed = cut.worlds - 1 - len(further) if full else 0
    further += [("", f"and {counted(unnamed, 'further world')}")] * (unnamed > 0)
    parts = [f"{counted(cut.worlds, 'world')}, {limit_words(cut, asked, options)}"]
    parts += ["--full lists all"] * (cut.worlds > 1 and not full)
    return [(_title(cut), "; ".join([*parts, f"the first one is {first}"])), *further]


def _world(number: int, scenario: Scenario, base: Scenario) -> str:
    return f"world {number:,}, {changed_sections(scenario, base) or 'as the scenario has it'}"


def limit_words(cut: Cut, asked: AskedWorlds, options: Options) -> str:
    """Returns how a limit ended a search, in words."""
    budget = format_duration(round((options.seconds or 0) * 1e9))
    limit = "default" if cut.limit == "schedules" and asked.by_default else cut.limit
    return LIMITS[limit].format(
        schedules=options.schedules,
        counted=counted(options.schedules, "schedule"),
        budget=budget,
        strategy=options.strategy,
        bound=cut.bound or "its bound",
    )


def whole_verdict(sizes: Scale, total: int, whole: Whole) -> str:
    """Returns the verdict on a set of worlds, on one line."""
    if whole.lost:
        return f"LOST  world {whole.number:,} of {total:,}, and no failure before: {whole.lost}"
    if whole.first is not None:
        which = "earlier" if isinstance(sizes, Swarm) else "smaller"
        part, skipped = whole.verdicts["sampled"] + whole.verdicts["bounded"], whole.number - whole.explored
        held = f"{whole.explored - 1 - part:,} hold in every schedule"
        held += (
            f", {part:,} in those that ran and {skipped:,} not begun" if skipped else f" and {part:,} in those that ran"
        )
        others = f"; of the {which} ones, {held}" if part or skipped else f", and no {which} one"
        return f"VIOLATED  world {whole.number:,} of {total:,}{others}"
    if whole.verdict == "vacuous":
        left = f"; {total - whole.explored:,} not begun" if whole.explored < total else ""
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
    words += [f"{total - whole.explored:,} not begun"] if whole.explored < total else []
    where = f" in {counted(whole.explored, 'drawn world')}" if whole.drawn else ""
    return f"{whole.verdict.upper()}  no failure{where}; {', '.join(words)}"


def _probed(probes: Mapping[str, int]) -> str:
    """Returns, for each probe, how many worlds reached it. A proof of worlds that reach no probe would mean little.

    >>> _probed({"a": 3, "b": 0, "c": 1})
    'a in 3 worlds, c in 1 world; never: b'
    """
    reached = [f"{probe} in {counted(worlds, 'world')}" for probe, worlds in probes.items() if worlds]
    never = [probe for probe, worlds in probes.items() if not worlds]
    return "; ".join([*[", ".join(reached)] * bool(reached), *[f"never: {', '.join(never)}"] * bool(never)])


def as_plain_data(asked: AskedWorlds, whole: Whole, options: Options, next: str = "") -> dict[str, Any]:
    """Returns the exploration of a set of worlds as plain data. `next`: as for `as_text`."""
    first = whole.first
    return {
        "scenario": asked.scenario.name,
        **({"swarm": asked.sizes.asked()} if isinstance(asked.sizes, Swarm) else {"sizes": asked.sizes._asdict()}),
        **({"possible": dict(asked.possible)} if asked.possible else {}),
        "not_varied": list(asked.fixed),
        "outside": asked.outside or None,
        "verdict": whole.verdict,
        "met": whole.unmet is None,
        "unmet": whole.unmet,
        "worlds": asked.total,
        "explored": whole.explored,
        "proven": whole.verdicts["proven"],
        "bounded": whole.verdicts["bounded"],
        "sampled": whole.verdicts["sampled"],
        "vacuous": whole.verdicts["vacuous"],
        "cut_short": [_cut_as_json(cut, asked, options) for cut in whole.cuts],
        "schedules": whole.runs,
        "probes": whole.probes,
        "alone": whole.alone,
        "never_applied": list(whole.never_applied),
        "assumes": list(whole.assumes),
        "lost": whole.lost or None,
        "next": [next] * bool(next),
        "violated": None if first is None else as_json(first.explored, first.scenario, first.traces),
    }


def _cut_as_json(cut: Cut, asked: AskedWorlds, options: Options) -> dict[str, Any]:
    return {
        "limit": cut.limit,
        "reason": limit_words(cut, asked, options),
        "begun": cut.begun,
        "worlds": cut.worlds,
        "first": cut.first,
        "first_scenario": dump_scenario(cut.scenario),
        "all": [
            {"world": number, "params": one.protocol.plain_params, "differs": changed_sections(one, asked.scenario)}
            for number, one in cut.all
        ],
    }
