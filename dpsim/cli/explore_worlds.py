"""Explores sets of worlds for `dpsim explore`: all small worlds like a scenario, or a swarm of drawn ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpsim.cli import coverage_text
from dpsim.cli.console import Progress, say, say_json
from dpsim.cli.explore_display import Display, end, warn

if TYPE_CHECKING:
    from dpsim.campaign.files import Options
    from dpsim.campaign.whole import Whole
    from dpsim.cli.explore_worlds_text import AskedWorlds
    from dpsim.scenario import Scenario

STOPPED_WORLD = "the search stopped at the first world that failed"
"""A line above the coverage that says why later worlds are missing in it."""


def small(chosen: list[tuple[Scenario, Path]], sizes: str) -> Iterator[AskedWorlds]:
    """Yields, for each scenario, all worlds with parameters up to `sizes`."""
    from dpsim.cli.explore_worlds_text import AskedWorlds
    from dpsim.scenario.small.worlds import all_up_to

    for base, folder in chosen:
        asked = all_up_to(base.in_folder(folder), sizes)
        fixed, outside = asked.not_varied, asked.outside
        yield AskedWorlds(base, asked.sizes, asked.total, asked.worlds(), fixed=fixed, outside=outside)


def drawn(chosen: list[tuple[Scenario, Path]], text: str, seed: int) -> Iterator[AskedWorlds]:
    """Yields, for each scenario, a swarm."""
    from dpsim.campaign.swarm import swarm_of
    from dpsim.cli.explore_worlds_text import AskedWorlds
    from dpsim.scenario import swarm as swarms

    drawn_from = swarms.swarm(text)
    for base, folder in chosen:
        found = swarm_of(base.in_folder(folder), folder, drawn_from, seed)
        possible = {kind: sum(kind in one.possible for one in found) for kind in drawn_from.kinds}
        yield AskedWorlds(base, drawn_from, drawn_from.worlds, [one.scenario for one in found], possible)


def explore_sets(sets: Iterator[AskedWorlds], options: Options, shown: Display) -> NoReturn:
    """Explores the worlds of each set until one fails, prints the results, and ends the command."""
    from dpsim.campaign.interrupts import done_before
    from dpsim.campaign.whole import explore_whole
    from dpsim.scenario.swarm import Swarm

    first, met, lost, rows = None, True, False, []
    by_default = "schedules" not in shown.again.options
    for number, asked in enumerate(one._replace(by_default=by_default) for one in sets):
        drawn = isinstance(asked.sizes, Swarm)
        title = f"exploring {asked.total:,} {'' if drawn else 'small '}worlds of "
        name = title + asked.scenario.name
        try:
            with Progress(name, unit="world", budget=options.seconds, quiet=shown.quiet) as progress:
                whole = explore_whole(asked.worlds, asked.total, options, progress, shown.covered, drawn)
        except KeyboardInterrupt as error:
            so_far = done_before(error).whole
            if so_far is not None and so_far.runs:
                _say_set(number, asked, so_far, options, shown)
            raise
        rows.append(_say_set(number, asked, whole, options, shown))
        first, met, lost = first or whole.first, met and whole.unmet is None, lost or bool(whole.lost)
    if shown.as_json:
        say_json({"met": met, "scenarios": rows, **coverage_text.covered_json(shown.covered)})
    elif not shown.quiet:
        coverage_text.say_covered(shown.covered, "" if first is None else STOPPED_WORLD)
    if first is not None:
        warn(first)
    end(lost, met)


def _say_set(number: int, asked: AskedWorlds, whole: Whole, options: Options, shown: Display) -> dict[str, Any]:
    from dpsim.cli import explore_worlds_text as text
    from dpsim.cli import two_lines

    several = len(shown.again.scenarios) > 1 and "torch" not in shown.again.options
    goes_on = shown.again.goes_on(number, {cut.limit for cut in whole.cuts}, options)
    goes_on = "" if whole.first is not None or whole.lost else goes_on
    if shown.quiet and not shown.as_json:
        name = asked.scenario.name if several else ""
        say(two_lines.of_worlds(name, asked.sizes, asked.total, whole))
        if whole.first is not None:
            shown.kept(whole.first, options)
    elif not shown.as_json:
        say(text.as_text(asked, whole, options, goes_on, shown.full))
        if whole.first is not None:
            say(f"\n{shown.outcome(whole.first, whole.unmet)}")
            for folder in shown.kept(whole.first, options):
                say(f"results: {folder}")
    return text.as_plain_data(asked, whole, options, goes_on)
