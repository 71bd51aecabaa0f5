"""`dpsim run`: runs a scenario on a backend, and judges the run.

    dpsim run quickstart --backend gloo --trace gloo.jsonl

If the command cannot write the trace, it prints the verdict first and the error after it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.cli import completers, torch_target
from dpsim.cli.console import CANNOT_RUN, NOT_MET, Progress, fail, one_line_errors, say, say_json
from dpsim.cli.json_alone import json_alone
from dpsim.cli.offered import answers, with_offered
from dpsim.cli.options import (
    AsJson,
    Full,
    KeepResults,
    Memory,
    Modules,
    Off,
    Quiet,
    allow_memory,
    import_modules,
    option,
    typed,
    with_off,
)
from dpsim.cli.torch_target import Order, Ranks, TorchTarget

if TYPE_CHECKING:
    from dpsim.diagnose.evidence import Extras
    from dpsim.runner import Result


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=completers.scenarios,
        help="A YAML file, a name that `dpsim list` shows, or - for standard input.",
    ),
]
Backend = Annotated[
    str,
    typer.Option(
        autocompletion=completers.backends, help="The backend: sim, gloo, nccl, or another that is installed."
    ),
]


@with_offered(before="trace")
def run(
    scenario: Words = None,
    torch: TorchTarget = None,
    ranks: Ranks = None,
    order: Order = None,
    backend: Backend = "sim",
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace (JSONL), whatever the verdict.")
    ] = None,
    module: Modules = None,
    off: Off = None,
    full: Full = False,
    quiet: Quiet = False,
    memory: Memory = None,
    results: KeepResults = True,
    as_json: AsJson = False,
    **offered: Any,
) -> None:
    """Run a scenario and judge it.

    Prints what holds, or which rank broke it and where, and whether the scenario expects that.
    """
    with one_line_errors(), json_alone(as_json):
        import dpsim.runner as runner
        from dpsim.cli import run_text, two_lines

        allow_memory(memory, quiet)
        import_modules(module)
        words = scenario or []
        [(chosen, base)] = torch_target.chosen(torch, ranks, order, words, alone=True)
        for changed in answers("run", chosen, offered):
            chosen = changed
        chosen = with_off(chosen, off or [])
        if trace is not None or as_json:
            import dpsim.trace as traces
            from dpsim.campaign.traces import write_judged
        if trace is not None:
            traces.check_writable(trace)
        _load_backend(backend)
        with runner.warm_backends(), Progress(f"{chosen.name} on {backend}", quiet=quiet) as progress:
            result = runner.run_scenario(chosen, backend, base=base, progress=progress)
            digest: str | None = None
            unwritten: Exception | None = None
            try:
                if trace is not None:
                    progress.phase(f"writing {trace}")
                    klass = result.primary.klass if result.primary else None
                    digest = write_judged(trace, result.run, result.scenario, klass).digest
                elif as_json:
                    digest = traces.digest(result.run.journals)
            except (OSError, traces.TraceError) as error:
                unwritten = error  # the command prints the verdict first
        written = None if unwritten else trace
        given = torch_target.typed_again(torch, ranks, order) or words, words if torch else []
        commands = _next(
            _command(given, backend, offered, module, off, memory, full), written, typed("--module", module)
        )
        extras = _extras(result, base, commands)
        folder = _results(result, extras) if results else None
        if as_json:
            say_json(run_text.as_json(result, digest, extras) | ({"results": str(folder)} if folder else {}))
        else:
            long = "" if quiet else run_text.as_text(result, extras, written, digest, full)
            say("\n".join([long, *[f"results: {folder}"] * bool(folder)]) if long else two_lines.of_run(result))
        if unwritten is not None:
            raise unwritten
        raise typer.Exit(CANNOT_RUN if result.run.lost or result.unclaimed else NOT_MET if result.unmet else 0)


def _results(result: Result, extras: Extras) -> Path | None:
    if result.unmet is None:
        return None
    from dpsim.campaign.results import results_of
    from dpsim.cli.run_text import expectation_line
    from dpsim.diagnose.report import report

    lines = [report(result.run, result.findings, extras, full=True), expectation_line(result)]
    return results_of(result, "\n\n".join(filter(None, lines)), extras=extras)


def _extras(result: Result, base: Path, commands: tuple[str, ...]) -> Extras:
    from dpsim.diagnose.variants import extras_of_choice

    extras = extras_of_choice(result.scenario.protocol, *commands)
    if not result.findings:
        return extras
    from dpsim.campaign.alternatives import of_result

    return of_result(extras, result, base)


def _load_backend(name: str) -> None:
    from dpsim.runner import find_backend

    try:
        find_backend(name)
    except ImportError as error:
        ours = (error.name or "").partition(".")[0] in ("real", "torch", "msgspec")
        cure = "; install dpsim again, with its extra `real`" if ours else ""
        fail(f"the backend {name} cannot be loaded: {error}{cure}", CANNOT_RUN)


def _next(again: str, trace: Path | None, more: list[str]) -> tuple[str, ...]:
    return (again, *[shlex.join(["dpsim", "replay", str(trace), *more])] * (trace is not None))


def _command(
    given: tuple[list[str], list[str]],
    backend: str,
    offered: dict[str, Any],
    modules: list[str] | None,
    off: list[str] | None,
    memory: str | None,
    full: bool,
) -> str:
    """`given`: what to run, and the arguments of a torch program."""
    what, arguments = given
    words = ["dpsim", "run", *what, *["--backend", backend] * (backend != "sim")]
    words += typed("--module", modules)
    for name, value in offered.items():
        words += [option(name)] if value else []
        words += [] if isinstance(value, bool | None) else [str(value)]
    words += typed("--off", off)
    words += [] if memory is None else ["--memory", memory]
    words += [] if full else ["--full"]
    words += ["--", *arguments] if arguments else []
    return torch_target.joined(words, what)
