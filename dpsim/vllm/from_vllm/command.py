"""The command `dpsim scenario from-vllm`: translates a command line of vLLM to a scenario.

dpsim scenario from-vllm "vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel" -o v3.yaml
dpsim scenario from-vllm - < serve.sh
dpsim scenario from-vllm - --protocol all -o worlds < serve.sh
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def from_vllm(
    context: typer.Context,
    command: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND",
            help="`vllm serve MODEL ...`, in quotes; the commands of all nodes, one a line; - for standard input.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file for the scenario, else stdout; with `--protocol all` a folder.",
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="The release whose rules apply, e.g. 0.24 (see `dpsim list`); else the newest.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The program, e.g. engine; else the one that runs the steps. `all`: each that fits, into folder -o.",
        ),
    ] = None,
) -> None:
    """Turn a command line of vLLM into a scenario.

    Prints the ignored flags with reasons to stderr. An unknown flag, or one that vLLM would refuse, is an error.
    """
    from dpsim.contract.words import BadInput
    from dpsim.vllm.from_vllm import translate
    from dpsim.vllm.from_vllm.worlds import ALL, next_words

    console = context.obj
    try:
        text = sys.stdin.read() if command == "-" else command
    except UnicodeDecodeError as error:
        raise BadInput(f"standard input is no text: {error}; expected commands in UTF-8") from None
    if protocol == ALL and output is None:
        raise BadInput("--protocol all: makes several scenarios; expected a folder for them, -o FOLDER")
    made, left_out = list[translate.Translated](), list[str]()
    if protocol == ALL:
        made, left_out = translate.all_of(text, release)
    else:
        made.append(translate.from_vllm(text, release, protocol))
    for remark in dict.fromkeys([remark for one in made for remark in one.remarks] + left_out):
        console.note(f"dpsim: {remark}")
    if output is None:
        console.say(made[0].text().rstrip("\n"))
        return
    if protocol == ALL:
        output.mkdir(parents=True, exist_ok=True)
    for one in made:
        file = output / f"{one.scenario.name}.yaml" if protocol == ALL else output
        console.write(file, one.text())
        console.note(f"dpsim: wrote {file}")
    console.note(f"dpsim: {next_words(made[-1].scenario.protocol.name, str(file))}")
