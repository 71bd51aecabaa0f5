"""`dpsim scenario from-vllm`: a command line of vLLM becomes a scenario.

dpsim scenario from-vllm "vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel" -o v3.yaml
dpsim scenario from-vllm - < serve.sh
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
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the scenario there, not to stdout.")
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="The form of the protocol, e.g. 0.33 (see `dpsim list`)."),
    ] = None,
) -> None:
    """Turn a command line of vLLM into a scenario.

    Says on stderr what was ignored, and why. What is unknown, or what vLLM would refuse, is an error.
    """
    from dpsim.contract.words import BadInput
    from dpsim.vllm.from_vllm import translate

    console = context.obj
    try:
        text = sys.stdin.read() if command == "-" else command
    except UnicodeDecodeError as error:
        raise BadInput(f"standard input is no text: {error}; expected commands in UTF-8") from None
    translated = translate.from_vllm(text, release)
    for remark in translated.remarks:
        console.note(f"dpsim: {remark}")
    if output is None:
        console.say(translated.text().rstrip("\n"))
    else:
        console.write(output, translated.text())
        console.note(f"dpsim: wrote {output}; next: dpsim run {output}")
