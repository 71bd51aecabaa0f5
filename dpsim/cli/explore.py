"""`dpsim explore`: searches the schedules of scenarios, all of them if time permits, and prints a verdict.

    dpsim explore my.yaml --budget 60s --jobs 2
    dpsim explore my.yaml --swarm 100:die,kill,delay
    dpsim explore my.yaml --all-up-to interval=3,slots=2

`--swarm` explores many worlds like the scenario, with faults drawn at random. `--all-up-to` explores every world whose
parameters are up to the given sizes (`dpsim.scenario.parameters`). If a trace cannot be written, the verdict stays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from dpsim.cli import coverage_text, explore_against, explore_work, explore_worlds, torch_target
from dpsim.cli import explore_options as options
from dpsim.cli.console import BAD_INPUT, Progress, fail, one_line_errors, say, say_json
from dpsim.cli.explore_again import TypedCommand
from dpsim.cli.explore_display import Display, end, warn
from dpsim.cli.json_alone import json_alone
from dpsim.cli.options import (
    AsJson,
    KeepResults,
    Memory,
    Modules,
    Off,
    Quiet,
    allow_memory,
    budget_seconds,
    import_modules,
    typed,
    with_off,
)
from dpsim.cli.torch_target import Order, Ranks, TorchTarget

if TYPE_CHECKING:
    from dpsim.campaign.against import AgainstBackend
    from dpsim.campaign.bounds import Bounds
    from dpsim.campaign.cut_short import Limit
    from dpsim.campaign.files import Options, Outcome
    from dpsim.scenario import Scenario


SCHEDULES = 1_000
UNBOUNDED = sys.maxsize
"""No bound on schedules: with a budget of seconds, DPOR searches until the budget ends, and may complete the search."""

STOPPED = "the search stopped at the first failure; --keep-going continues it"
"""A line above the coverage that says why later schedules are missing in it."""


def explore(
    context: typer.Context,
    scenarios: options.Scenarios = None,
    torch: TorchTarget = None,
    ranks: Ranks = None,
    order: Order = None,
    strategy: options.Strategy = "portfolio",
    schedules: options.Schedules = None,
    budget: options.Budget = None,
    jobs: options.Jobs = 1,
    seed: options.Seed = 0,
    keep_going: options.KeepGoing = False,
    all_up_to: options.AllUpTo = None,
    swarm: options.Worlds = None,
    save: options.Save = Path(".dpsim"),
    work: options.Work = None,
    resume: options.Resume = None,
    cluster: options.Cluster = None,
    preemptions: options.Preemptions = None,
    late_deliveries: options.LateDeliveries = None,
    deaths: options.Deaths = None,
    early_timeouts: options.EarlyTimeouts = None,
    against: options.Against = None,
    coverage: options.Coverage = False,
    module: Modules = None,
    off: Off = None,
    full: options.Full = False,
    quiet: Quiet = False,
    memory: Memory = None,
    results: KeepResults = True,
    as_json: AsJson = False,
) -> None:
    """Prove that a scenario holds in every schedule, or find a schedule in which it fails.

    Prints proven, sampled or bounded, with counts. Or it prints the failure, its schedule and how to replay it.
    """
    with one_line_errors(), json_alone(as_json):
        from dpsim.campaign import files
        from dpsim.campaign.bounds import Bounds
        from dpsim.campaign.coverage import Coverage

        allow_memory(memory, quiet)
        import_modules(module)
        seconds = _checked(strategy, budget)
        bounds = Bounds(preemptions, late_deliveries, deaths, early_timeouts)
        complete = strategy == "dpor" or bounds.binds
        most = schedules or (UNBOUNDED if complete and seconds is not None else SCHEDULES)
        search = files.Options(strategy, most, seconds, jobs, seed, keep_going, save, None, None, bounds, bool(against))
        named = torch_target.chosen(torch, ranks, order, scenarios or [])
        chosen = [(with_off(one, off or []), base) for one, base in named]
        covered = Coverage() if coverage else None
        shown = Display(typed("--module", module), full, quiet, as_json, results, covered, TypedCommand.of(context))
        _refuse_both(swarm, all_up_to, keep_going)
        backend = explore_against.wanted(against, [one for one, _ in chosen], shown.again.options)
        of_a_set = swarm is not None or all_up_to is not None
        _refuse_bounds(bounds, strategy, of_a_set, [one for one, _ in chosen])
        worlds = f"--swarm {swarm}" if swarm is not None else f"--all-up-to {all_up_to}" if all_up_to else "as written"
        with (
            explore_work.opened(work, resume, chosen, search, worlds) as kept,
            explore_work.on(cluster, jobs) as machines,
        ):
            search = search._replace(work=kept, cluster=machines)
            if swarm is not None:
                explore_worlds.explore_sets(explore_worlds.drawn(chosen, swarm, seed), search, shown)
            if all_up_to is not None:
                explore_worlds.explore_sets(explore_worlds.small(chosen, all_up_to), search, shown)
            _explore_each(chosen, search, shown, backend)


def _checked(strategy: str, budget: str | None) -> float | None:
    from dpsim.explore import STRATEGIES, search

    try:
        if strategy not in STRATEGIES:
            search(strategy)
    except ValueError as error:
        fail(f"--strategy: {error}", BAD_INPUT)
    return budget_seconds(budget)


def _refuse_both(swarm: str | None, all_up_to: str | None, keep_going: bool) -> None:
    if swarm is not None and all_up_to is not None:
        fail("--swarm: not together with --all-up-to; leave one of them out", BAD_INPUT)
    if keep_going and (swarm is not None or all_up_to is not None):
        instead = "--swarm" if all_up_to is None else "--all-up-to"
        reason = f"with {instead} the first world that fails is the last one explored; leave it out"
        fail(f"--keep-going: {reason}", BAD_INPUT)


def _explore_each(
    chosen: list[tuple[Scenario, Path]],
    options: Options,
    shown: Display,
    against: AgainstBackend | None = None,
) -> NoReturn:
    from dpsim.campaign import deepening
    from dpsim.cli import explore_text as text
    from dpsim.cli import two_lines

    title = chosen[0][0].name if len(chosen) == 1 else f"{len(chosen)} scenarios"
    with Progress(f"exploring {title}", unit="schedule", budget=options.seconds, quiet=shown.quiet) as progress:
        outcomes = deepening.explore_each(chosen, options, progress, lambda how_far: progress.set_line(how_far.line()))
    explore_against.hold(outcomes, against, options.seed, options.keep_going, shown.quiet)
    met = all(one.explored.unmet is None for one in outcomes)
    kept = [shown.kept(one, options) for one in outcomes]
    limits = [_limit(one, options) for one in outcomes]
    goes_on = [shown.again.goes_on(number, {limit}, options) for number, limit in enumerate(limits)]
    if shown.covered is not None:
        for one in outcomes:
            shown.covered.add(one.explored.subject, one.explored.exploration)
    if shown.as_json:
        rows = [
            text.as_json(one.explored, one.scenario, one.traces, limit, command) | ({"results": own} if own else {})
            for one, own, limit, command in zip(outcomes, kept, limits, goes_on, strict=True)
        ]
        say_json({"met": met, "scenarios": rows, **coverage_text.covered_json(shown.covered)})
    elif shown.quiet:
        say(two_lines.of_each(outcomes))
    else:
        pairs = zip(outcomes, goes_on, strict=True)
        say("\n\n".join(shown.outcome(one, one.explored.unmet, command) for one, command in pairs))
        if len(outcomes) > 1:
            say(f"\n{text.totals([one.explored for one in outcomes])}")
        for folder in (one for own in kept for one in own):
            say(f"results: {folder}")
        stopped = not options.keep_going and any(one.explored.exploration.failures for one in outcomes)
        coverage_text.say_covered(shown.covered, STOPPED if stopped else "")
    for one in outcomes:
        warn(one)
    end(any(one.explored.exploration.lost for one in outcomes), met)


def _limit(one: Outcome, options: Options) -> Limit:
    from dpsim.campaign.cut_short import limit_of

    return limit_of(one.explored.exploration, options.strategy, options.schedules, options.seconds is not None)


def _refuse_bounds(bounds: Bounds, strategy: str, of_a_set: bool, scenarios: Iterable[Scenario]) -> None:
    named = [f"--{key.replace('_', '-')}" for key, number in bounds._asdict().items() if number is not None]
    for scenario in scenarios:
        limits = bounds.of(scenario, type(bounds)())._asdict()
        named += [f"{scenario.name}: limits.{key}" for key, number in limits.items() if number is not None]
    if named and of_a_set:
        fail(f"{named[0]}: not together with --swarm or --all-up-to; explore one scenario", BAD_INPUT)
    if named and strategy not in ("portfolio", "dpor"):
        fail(f"{named[0]}: bounds a search of all schedules, and {strategy} samples; leave --strategy out", BAD_INPUT)
