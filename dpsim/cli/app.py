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
of `dpsim.cli.console`. A planted fault that is found as the scenario expects is a success: exit 0.

Nothing but typer is imported before a command runs, so that `dpsim --help` answers at once.
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.cli.console import (
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
from dpsim.cli.explore import explore, museum, replay
from dpsim.cli.options import AsJson, Modules, Off, import_module, with_off

if TYPE_CHECKING:
    from dpsim.runner import Result

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
        from dpsim import runner
        from dpsim import trace as traces
        from dpsim.cli import run_text as summary
        from dpsim.scenario import load_scenario, with_limit, with_workload
        from dpsim.scenario.locate import scenario_path

        for name in module or ():
            import_module(name)
        path = scenario_path(scenario)
        chosen = load_scenario(path)
        if workload is not None:
            chosen = with_workload(chosen, workload)
        if requests is not None:
            chosen = with_limit(chosen, requests)
        if off:
            chosen = with_off(chosen, off)
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
        raise typer.Exit(NOT_MET if result.unmet else CANNOT_RUN if result.unclaimed else 0)


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
    from dpsim.cli import run_text as summary
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
        from dpsim import trace as traces
        from dpsim.cli import run_text as summary

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
        from dpsim.cli import list as inventory

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


for command in (explore, replay, museum):
    app.command()(command)
