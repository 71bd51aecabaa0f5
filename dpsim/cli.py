"""The command line: run a scenario, compare two traces, and say what there is.

    dpsim run quickstart
    dpsim run my.yaml --backend gloo --trace gloo.jsonl
    dpsim run my.yaml --off 'MISMATCH:*'
    dpsim explore my.yaml --budget 60s --jobs 2
    dpsim replay .dpsim/my-448da4e9.jsonl
    dpsim compare sim.jsonl gloo.jsonl
    dpsim museum
    dpsim list
    dpsim schema > docs/scenario.schema.json

Results are on stdout, the verdict last; `--json` makes them one JSON object. Exit codes, errors and progress are those
of `dpsim.console`. A planted fault that is found as the scenario expects is a success: exit 0.

Nothing but typer is imported before a command runs, so that `dpsim --help` answers at once.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dpsim.console import (
    BAD_INPUT,
    CANNOT_RUN,
    INTERRUPTED,
    NOT_MET,
    Progress,
    columns,
    fail,
    note,
    one_line_errors,
    painted,
    say,
    silence,
)

if TYPE_CHECKING:
    from dpsim.explore import Failure
    from dpsim.exploring import Options, Outcome
    from dpsim.runner import Result
    from dpsim.scenario import Scenario

MANY_RECORDS = 1_000_000
BUG = 70  # EX_SOFTWARE of sysexits.h: neither a verdict nor a mistake of the user

app = typer.Typer(
    name="dpsim",
    help="Run coordination protocols of inference engines, simulated, on gloo or on GPUs, and say what does not hold.",
    epilog="Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 cannot be run on this machine.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module", metavar="MODULE", help="Import this module first: it registers protocols. May be given often."
    ),
]
Off = Annotated[
    list[str] | None,
    typer.Option(
        "--off", metavar="PATTERN", help="Leave findings of this class out of the verdict, e.g. 'HANG:*'; repeatable."
    ),
]


def main() -> None:
    """The entry point `dpsim`."""
    try:
        app()
    except KeyboardInterrupt:
        note("dpsim: interrupted")
        sys.exit(INTERRUPTED)
    except OSError as error:  # typer's own output: help, usage
        silence(sys.stdout)
        note(f"dpsim: cannot write to standard output: {error.strerror}")
        sys.exit(BAD_INPUT)
    except Exception:
        note(traceback.format_exc().rstrip())
        note("dpsim: this is a bug in dpsim or in a protocol registered with it; please report it with the lines above")
        sys.exit(BUG)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=lambda value: _version(value), help="Print the version."),
    ] = False,
) -> None:
    pass


def _version(asked: bool) -> None:
    if asked:
        import dpsim

        say(f"dpsim {dpsim.__version__}")
        raise typer.Exit


# ---- run


@app.command()
def run(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A YAML file, or a name that `dpsim list` shows.")
    ],
    backend: Annotated[str, typer.Option(help="Where to run: sim, gloo, nccl, or another that is installed.")] = "sim",
    workload: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take the requests from this Azure trace (CSV).")
    ] = None,
    requests: Annotated[int | None, typer.Option(metavar="N", min=1, help="Take the first N requests only.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace (JSONL), whatever the verdict.")
    ] = None,
    module: Modules = None,
    off: Off = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario and judge it.

    Says what holds or who broke it, where, and whether that was expected.
    """
    with one_line_errors():
        from dpsim import runner, summary
        from dpsim import trace as traces
        from dpsim.scenario import load_scenario, with_limit, with_workload
        from dpsim.scenario.locate import scenario_path

        for name in module or ():
            _import(name)
        path = scenario_path(scenario)
        chosen = load_scenario(path)
        if workload is not None:
            chosen = with_workload(chosen, workload)
        if requests is not None:
            chosen = with_limit(chosen, requests)
        if off:
            chosen = _with_off(chosen, off)
        if trace is not None:
            traces.check_writable(trace)
        _load_backend(backend)
        with runner.warm_backends(), Progress(f"{chosen.name} on {backend}") as progress:
            result = runner.run_scenario(chosen, backend, base=path.parent, progress=progress)
            digest: str | None = None
            unwritten: Exception | None = None
            try:
                if trace is not None:
                    progress.phase(f"writing {trace}")
                    digest = _write(result, trace)
                elif as_json:
                    digest = traces.digest(result.run.journals)
            except (OSError, traces.TraceError) as error:
                unwritten = error  # the verdict is told all the same
        replay = _command(scenario, backend, workload, requests, module or [], off or [])
        if as_json:
            say(json.dumps(summary.as_json(result, digest)))
        else:
            _show(result, replay, None if unwritten else trace, digest)
        if unwritten is not None:
            raise unwritten
        raise typer.Exit(0 if result.met else NOT_MET)


def _load_backend(name: str) -> None:
    """Make the backend; one that cannot be imported here cannot run here."""
    from dpsim.runner import find_backend

    try:
        find_backend(name)
    except ImportError as error:
        fail(
            f"the backend {name} cannot be loaded: {error}; install its extra: pip install 'dpsim-ranks[real]'",
            CANNOT_RUN,
        )


def _write(result: Result, path: Path) -> str:
    import dpsim
    from dpsim.trace import write_trace

    header = write_trace(
        path,
        result.run,
        scenario=result.scenario.model_dump(mode="json", by_alias=True),
        verdict=result.verdict,
        klass=result.primary.klass if result.primary else None,
        versions={"dpsim": dpsim.__version__, "python": platform.python_version()},
    )
    return header.digest


def _import(module: str) -> None:
    """Import a user's module, from the present folder too. One that cannot be imported is bad input."""
    sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except Exception as error:
        fail(f"cannot import the module {module}: {type(error).__name__}: {error}", BAD_INPUT)


def _with_off(scenario: Scenario, patterns: list[str]) -> Scenario:
    """The same, with more findings switched off."""
    from dpsim.checks.finding import pattern_problem
    from dpsim.scenario import scenario_from

    for problem in filter(None, map(pattern_problem, patterns)):
        fail(f"--off: {problem}", BAD_INPUT)
    every = dict.fromkeys([*scenario.checks.switched_off, *patterns])
    return scenario_from({**dict(scenario), "checks": {"switched_off": list(every)}})


def _command(
    scenario: str,
    backend: str,
    workload: str | None,
    requests: int | None,
    modules: list[str],
    off: list[str],
) -> str:
    """What to type to run it again."""
    words = ["dpsim", "run", scenario, "--backend", backend]
    words += [word for module in modules for word in ("--module", module)]
    words += ["--workload", workload] if workload is not None else []
    words += ["--requests", str(requests)] if requests is not None else []
    words += [word for pattern in off for word in ("--off", pattern)]
    return shlex.join(words)


def _show(result: Result, replay: str, trace: Path | None, digest: str | None) -> None:
    from dpsim import summary
    from dpsim.diagnose.report import report

    rows = summary.table(result)
    if trace is not None and digest is not None:
        rows += [("trace", str(trace)), ("trace digest", digest[:16])]
    text = [*columns(rows), ""]
    if result.findings:
        text.append(painted(report(result.run, result.findings, replay), good=False))
    else:
        text.append(painted(summary.verdict_line(result), good=True))
    text += [f"never applied: {line}" for line in result.never_applied]
    text += [*summary.switched_off_lines(result), summary.expectation_line(result)]
    say("\n".join(text))


# ---- explore


@app.command()
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
        typer.Option(metavar="SIZES", help="Every small workload instead, e.g. ranks=2,requests=2,steps=3."),
    ] = None,
    save: Annotated[Path, typer.Option(metavar="FOLDER", help="Where traces of failures go.")] = Path(".dpsim"),
    module: Modules = None,
    off: Off = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario under many schedules: prove that it holds in all, or find one in which it does not.

    Says proven, sampled or bounded, with counts, or what breaks, under which schedule, and how to replay it.
    """
    with one_line_errors():
        from dpsim import exploring, outcome
        from dpsim.explore import STRATEGIES, search
        from dpsim.scenario import load_scenario
        from dpsim.scenario.duration import parse_duration
        from dpsim.scenario.locate import scenario_path

        for name in module or ():
            _import(name)
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
            chosen = [(_with_off(one, off), base) for one, base in chosen]
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
    from dpsim.explore.dpor import Diverged
    from dpsim.parallel import WorkerLost

    try:
        yield
    except Diverged as error:
        fail(f"nothing can be said of this protocol: {error}", BAD_INPUT)
    except WorkerLost as error:
        fail(str(error), CANNOT_RUN)


def _explore_whole(bases: list[Scenario], sizes: str, options: Options, more: list[str], as_json: bool) -> NoReturn:
    """Every small scenario like these."""
    from dpsim import exploring, outcome
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
    from dpsim import outcome

    def command(failure: Failure) -> str:
        trace = one.traces.get(failure.fingerprint)
        return "" if trace is None else shlex.join(["dpsim", "replay", str(trace), *more])

    return outcome.as_text(one.explored, one.scenario, command, told)


@app.command()
def replay(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="What `dpsim explore` or `dpsim run --trace` wrote.")],
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Go on where the schedule does not fit, and say what was skipped.")
    ] = False,
    module: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Make the run of a trace again, step by step, and say whether it is the same."""
    with one_line_errors():
        from dpsim import outcome, replaying
        from dpsim import trace as traces
        from dpsim.explore.replay import Mismatch

        for name in module or ():
            _import(name)
        try:
            replayed = replaying.replay(traces.read_trace(trace), strict=not fallback)
        except Mismatch as error:
            fail(f"{trace}: {error}. --fallback goes on all the same", NOT_MET)
        if as_json:
            say(json.dumps(outcome.replayed_as_json(replayed)))
        else:
            say(outcome.replayed_as_text(replayed))
        raise typer.Exit(0 if replayed.same else NOT_MET)


# ---- compare


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A trace that `dpsim run --trace` wrote.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    as_json: AsJson = False,
) -> None:
    """Compare two traces: equal, or the first difference.

    Decisions, ops in their order, and what ranks learned are compared; backend, time and places in the source are not.
    """
    with one_line_errors():
        from dpsim import summary
        from dpsim import trace as traces

        both = traces.read_trace(a), traces.read_trace(b)
        records = sum(trace.header.records for trace in both)
        if records > MANY_RECORDS:
            note(f"dpsim: comparing {records:,} records; about ten seconds for each million")
        difference = traces.compare(*both)
        if as_json:
            say(json.dumps(summary.comparison_as_json(*both, difference)))
        else:
            say(painted(summary.comparison(*both, difference), good=difference is None))
        raise typer.Exit(0 if difference is None else NOT_MET)


# ---- what there is


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    with one_line_errors():
        from dpsim.scenario.schema import schema_text

        say(schema_text().rstrip("\n"))


@app.command(name="list")
def list_all(as_json: AsJson = False) -> None:
    """List scenarios, protocols, variants and backends."""
    with one_line_errors():
        from dpsim import inventory

        found = {
            "scenarios": inventory.scenarios(),
            "protocols": inventory.protocols(),
            "variants": inventory.variants(),
            "backends": _backends(),
        }
        say(json.dumps(found) if as_json else inventory.as_text(found))


def _backends() -> list[dict[str, Any]]:
    """`reason`: why one cannot run a world of two ranks here, or None."""
    from dpsim.runner import backend_names, find_backend

    found = []
    for name in backend_names():
        try:
            reason = find_backend(name).unavailable(2)
        except ImportError as error:
            reason = f"cannot be loaded: {error}"
        found.append({"name": name, "reason": reason})
    return found


# ---- the museum


@app.command()
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
        from dpsim import exhibition, museum_table

        for name in module or ():
            _import(name)
        entries, files = exhibition.chosen(only or ()), exhibition.exhibits(exhibits or ())
        with Progress("museum", unit="variant") as progress:
            shown = exhibition.exhibition(entries, files, schedules, progress)
        if as_json:
            say(json.dumps(museum_table.as_json(shown)))
        else:
            say(museum_table.as_text(shown))
        raise typer.Exit(0 if shown.as_registered else NOT_MET)


if __name__ == "__main__":
    main()
