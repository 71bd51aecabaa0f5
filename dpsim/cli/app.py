"""The typer application: it registers all commands, and turns what ends a command into an exit code.

    dpsim --help
    dpsim run quickstart

A command prints results to stdout, the verdict last, or with `--json` one object. At its top, this module imports only
typer and small modules, so that `dpsim --help` starts fast. Other packages add commands (`dpsim.cli.offered`).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from dpsim.cli import console
from dpsim.cli.campaign import campaign
from dpsim.cli.compare import compare
from dpsim.cli.console import (
    BAD_INPUT,
    CANNOT_RUN,
    Terminated,
    code_of,
    how_interrupted,
    lacking,
    note,
    say,
    say_error,
    silence,
)
from dpsim.cli.exit_codes import ALL, ASK_TO_END, BUG, in_help
from dpsim.cli.explain import explain
from dpsim.cli.explore import explore
from dpsim.cli.explore_against import NumberAfterBackend
from dpsim.cli.export import export
from dpsim.cli.import_job import import_job
from dpsim.cli.json_alone import ask, begin
from dpsim.cli.list import list_all, schema
from dpsim.cli.misspelt import USAGE_ERROR, NamedCommands, suggest_options
from dpsim.cli.museum import museum
from dpsim.cli.new import new
from dpsim.cli.offered import COMMANDS, SOURCES, add_commands
from dpsim.cli.record import record
from dpsim.cli.replay import replay
from dpsim.cli.run import run
from dpsim.cli.show import show
from dpsim.cli.timer import FREE
from dpsim.contract.words import printable

OBJECTS = 50_000
"""New objects that start the garbage collector. Those that a command creates first live until its end."""


class Commands(NamedCommands):
    """The group of all commands. If options are wrong, `--json` prints an object with the error."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **given: Any) -> Any:
        words = [*args]  # because the parser removes words from `args`
        begin()
        try:
            return super().make_context(info_name, args, parent, **given)
        except USAGE_ERROR as error:
            if getattr(error, "option_name", "") == "--json":
                error.message = f"{error.message}; expected after the command: dpsim list --json"
            _fail(error, words)

    def invoke(self, ctx: Any) -> Any:
        words = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            suggest_options(error)
            _fail(error, words)


def _fail(error: Any, words: list[str]) -> NoReturn:
    """Raises a usage error again. If the user gave `--json`, prints its object first."""
    ask("--json" in words)  # the parser stops at an unknown option, maybe before `--json`
    say_error(str(error.format_message()), BAD_INPUT)
    raise error


app = typer.Typer(
    name="dpsim",
    cls=Commands,
    help="Run coordination protocols of inference engines, simulated, on gloo or on GPUs, and report what fails.",
    epilog=ALL,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Runs the command line, and ends the process with its exit code. `dpsim.cli.ending` calls it."""
    gc.set_threshold(OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each thread of OpenBLAS takes memory, and dpsim needs none
    with suppress(ValueError):  # outside of the main thread, signals belong to the caller
        for name in ASK_TO_END:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores SIGHUP
                signal.signal(number, _terminated)
    FREE.append(_terminated)
    try:
        app()
    except KeyboardInterrupt as error:
        how, code = how_interrupted(error)
        note(f"dpsim: {how}")
        sys.exit(code)
    except OSError as error:  # typer cannot print help or usage
        silence(sys.stdout)
        note(f"dpsim: cannot write to standard output: {error.strerror}")
        sys.exit(code_of(error))
    except SystemExit:
        raise
    except BaseException as error:
        lacked = lacking(error)
        if lacked:
            note(f"dpsim: {lacked}")
            sys.exit(CANNOT_RUN)
        note("\n".join(map(printable, traceback.format_exc().rstrip().split("\n"))))
        note("dpsim: this is a bug in dpsim or in a protocol registered with it; please report it with the lines above")
        sys.exit(BUG)


def _terminated(number: int, frame: object) -> NoReturn:
    raise Terminated(number)


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=lambda value: _version(value), help="Print the version."),
    ] = False,
) -> None:
    context.obj = console
    begin()


def _version(asked: bool) -> None:
    if asked:
        from dpsim.version import version

        say(f"dpsim {version()}")
        raise typer.Exit


app.command("run")(run)  # in the order of `dpsim --help`
app.command("compare")(compare)
app.command("schema")(schema)
app.command("list")(list_all)
app.command("show")(show)
app.command("new")(new)
app.command("explore", cls=NumberAfterBackend)(explore)
app.command("replay")(replay)
app.command("record", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(record)
app.command("explain")(explain)
app.command("export")(export)
app.command("import")(import_job)
app.command("museum")(museum)
app.add_typer(campaign, name="campaign", epilog=ALL)
add_commands(app, COMMANDS)

scenario = typer.Typer(
    cls=NamedCommands,
    help="Write scenarios from other sources.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@scenario.callback()
def _scenario() -> None:
    """Write scenarios from other sources."""


if add_commands(scenario, SOURCES):
    app.add_typer(scenario, name="scenario", epilog=ALL)
in_help(app, scenario, campaign)
