"""The command `dpsim check-engine`: checks whether dpsim still models what vLLM does.

dpsim check-engine
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer


def check_engine(
    context: typer.Context,
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder of stored answers; else $DPSIM_ENGINE_ANSWERS, else dpsim's."),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Compare the stored answers, also where vllm is installed.")
    ] = False,
    as_release: Annotated[
        str, typer.Option("--as", metavar="RELEASE", help="Treat the installed vllm as this release, e.g. 0.33.0.")
    ] = "",
    draws: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="The number of random questions of each kind to an installed vllm."),
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="The seed of the random questions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Compare answers of vLLM's own functions with those of dpsim's model.

    With vllm installed, the command calls its functions; else it compares the stored answers of releases. It lists
    named departures with their reason. Any other difference ends with 1, a question that it cannot put with 3.
    """
    from dpsim.contract.words import BadInput
    from dpsim_engine import check
    from dpsim_engine import command_text as text
    from dpsim_engine.comparison import numbers
    from dpsim_engine.live.installed import installed
    from dpsim_engine.stored import folder

    console = context.obj
    console.ask(as_json)
    with redirect_stdout(sys.stderr):  # from its import on, vllm logs to standard output
        release = None if stored else installed()
    if as_release and not numbers(as_release):
        raise BadInput(f"--as {as_release}: expected a release of vllm, such as 0.33.0")
    if as_release and release is None:
        raise BadInput("--as: treats an installed vllm as another release, but this check compares stored answers")
    place = folder(answers)
    with console.Progress("check-engine", unit="kind") as progress, redirect_stdout(sys.stderr):
        if release is None:
            found = check.stored(place, progress)
        else:
            found = check.live(place, release, as_release, draws, seed, progress)
    if as_json:
        console.say_json(text.as_json(found))
    else:
        console.say(text.table(found, console.columns))
        console.say(console.painted(text.verdict(found), good=found.verdict == "equal"))
    ends = {"equal": 0, "different": console.NOT_MET, "no verdict": console.CANNOT_RUN}
    raise typer.Exit(ends[found.verdict])
