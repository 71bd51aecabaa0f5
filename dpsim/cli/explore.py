"""The commands that make many runs: `explore`, `museum`; and `replay`, which makes one of them again.

Nothing but typer is imported before a command runs, as in `dpsim.cli.app`, which gives them their names.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dpsim.cli.console import BAD_INPUT, CANNOT_RUN, NOT_MET, Progress, fail, one_line_errors, say
from dpsim.cli.options import AsJson, Modules, Off, import_module, with_off

if TYPE_CHECKING:
    from dpsim.campaign.files import Options, Outcome
    from dpsim.explore import Failure
    from dpsim.scenario import Scenario


def explore(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="YAML files, or names that `dpsim list` shows.")
    ],
    strategy: Annotated[
        str, typer.Option(help="How to choose schedules: portfolio, dpor, random, pct, pos, fifo.")
    ] = "portfolio",
    schedules: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="At most so many of each scenario; the portfolio samples as many more."),
    ] = 1000,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin no more runs after so long, e.g. 60s or 5min; for all together."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, max=256, help="So many processes.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the strategies that draw random numbers.")] = 0,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Look for more failures after the first.")] = False,
    all_up_to: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help="Every small world instead, e.g. ranks=2,requests=2,steps=3; also prompt, output, abort, stages.",
        ),
    ] = None,
    save: Annotated[Path, typer.Option(metavar="FOLDER", help="Where traces of failures go.")] = Path(".dpsim"),
    module: Modules = None,
    off: Off = None,
    as_json: AsJson = False,
) -> None:
    """Prove that a scenario holds in every schedule, or find one in which not.

    Says proven, sampled or bounded, with counts, or what breaks, under which schedule, and how to replay it.
    """
    with one_line_errors():
        from dpsim.campaign import files as exploring
        from dpsim.cli import explore_text as outcome
        from dpsim.explore import STRATEGIES, search
        from dpsim.scenario import load_scenario
        from dpsim.scenario.duration import parse_duration
        from dpsim.scenario.locate import scenario_path

        for name in module or ():
            import_module(name)
        if strategy not in STRATEGIES:
            try:
                search(strategy)
            except ValueError as error:
                fail(f"--strategy: {error}", BAD_INPUT)
        try:
            seconds = None if budget is None else parse_duration(budget) / 1e9
        except ValueError as error:
            fail(f"--budget: {error}", BAD_INPUT)
        options = exploring.Options(strategy, schedules, seconds, jobs, seed, keep_going, save)
        paths = [scenario_path(name) for name in scenarios]
        chosen = [(load_scenario(path), path.parent) for path in paths]
        if off:
            chosen = [(with_off(one, off), base) for one, base in chosen]
        more = [word for name in module or () for word in ("--module", name)]
        if all_up_to is not None:
            _explore_whole([one for one, _ in chosen], all_up_to, options, more, as_json)
        title = chosen[0][0].name if len(chosen) == 1 else f"{len(chosen)} scenarios"
        with Progress(f"exploring {title}", unit="schedule") as progress, _exploring_errors():
            outcomes = exploring.explore_files(chosen, options, progress)
        met = all(outcome.unmet(one.explored, one.scenario) is None for one in outcomes)
        if as_json:
            rows = [outcome.as_json(one.explored, one.scenario, one.traces) for one in outcomes]
            say(json.dumps({"met": met, "scenarios": rows}))
        else:
            say("\n\n".join(_outcome(one, more) for one in outcomes))
            if len(outcomes) > 1:
                say(f"\n{outcome.totals([one.explored for one in outcomes])}")
        for one in outcomes:
            if one.unwritten is not None:
                raise one.unwritten
        raise typer.Exit(0 if met else NOT_MET)


@contextmanager
def _exploring_errors() -> Iterator[None]:
    """What only exploration raises, as a line: a program that is no function of its schedule, a worker that is lost."""
    from dpsim.campaign.processes import WorkerLost
    from dpsim.explore.strategies.dpor import Diverged

    try:
        yield
    except Diverged as error:
        fail(f"nothing can be said of this protocol: {error}", BAD_INPUT)
    except WorkerLost as error:
        fail(str(error), CANNOT_RUN)


def _explore_whole(bases: list[Scenario], sizes: str, options: Options, more: list[str], as_json: bool) -> NoReturn:
    """Every small scenario like these."""
    from dpsim.campaign import files as exploring
    from dpsim.cli import explore_text as outcome
    from dpsim.scenario import small

    if options.keep_going:
        fail(
            "--keep-going: with --all-up-to the first world that fails is the last one explored; leave it out",
            BAD_INPUT,
        )
    scope = small.scope(sizes)
    first, rows = None, []
    for base in bases:
        total = small.count(scope)
        title = f"exploring {total:,} small worlds of {base.name}"
        with Progress(title, unit="world") as progress, _exploring_errors():
            whole = exploring.explore_whole(small.small_scenarios(base, scope), total, options, progress)
        rows.append(outcome.whole_as_json(base.name, scope, total, whole))
        if not as_json:
            say(outcome.whole_as_text(base.name, scope, total, whole))
            if whole.first is not None:
                say(f"\n{_outcome(whole.first, more, told=False)}")
        first = first or whole.first
    if as_json:
        say(json.dumps({"met": first is None, "scenarios": rows}))
    if first is not None and first.unwritten is not None:
        raise first.unwritten
    raise typer.Exit(0 if first is None else NOT_MET)


def _outcome(one: Outcome, more: list[str], told: bool = True) -> str:
    from dpsim.cli import explore_text as outcome

    def command(failure: Failure) -> str:
        trace = one.traces.get(failure.fingerprint)
        return "" if trace is None else shlex.join(["dpsim", "replay", str(trace), *more])

    return outcome.as_text(one.explored, one.scenario, command, told)


def replay(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="What `dpsim explore` or `dpsim run --trace` wrote.")],
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Go on where the schedule does not fit, and say what was skipped.")
    ] = False,
    module: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Make the run of a trace again, and say whether it is the same."""
    with one_line_errors():
        from dpsim import trace as traces
        from dpsim.campaign import replay as replaying
        from dpsim.cli import explore_text as outcome
        from dpsim.explore.strategies.replay import Mismatch

        for name in module or ():
            import_module(name)
        try:
            replayed = replaying.replay(traces.read_trace(trace), strict=not fallback)
        except Mismatch as error:
            fail(f"{trace}: {error}. --fallback goes on all the same", NOT_MET)
        if as_json:
            say(json.dumps(outcome.replayed_as_json(replayed)))
        else:
            say(outcome.replayed_as_text(replayed))
        raise typer.Exit(0 if replayed.same else NOT_MET)


def museum(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Variants of this name alone, e.g. M-DP-3 or 'm-dp-*'; repeatable."),
    ] = None,
    exhibits: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Take exhibits from this folder too; repeatable.")
    ] = None,
    schedules: Annotated[int, typer.Option(metavar="N", min=1, help="How many schedules a search may run.")] = 200,
    module: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Show what finds each known mistake, how soon, and that its healthy twin holds.

    A variant that is not found as it is registered, or whose twin does not hold, is said, and ends with 1.
    """
    with one_line_errors():
        from dpsim.campaign import museum as exhibition
        from dpsim.cli import museum_text as museum_table

        for name in module or ():
            import_module(name)
        entries, files = exhibition.chosen(only or ()), exhibition.exhibits(exhibits or ())
        with Progress("museum", unit="variant") as progress:
            shown = exhibition.exhibition(entries, files, schedules, progress)
        if as_json:
            say(json.dumps(museum_table.as_json(shown)))
        else:
            say(museum_table.as_text(shown))
        raise typer.Exit(0 if shown.as_registered else NOT_MET)
