"""`dpsim scenario from-vllm`: a command line of vLLM becomes a scenario.

dpsim scenario from-vllm "vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel" -o v3.yaml
dpsim scenario from-vllm - < serve.sh
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli.console import BAD_INPUT, fail, note, one_line_errors, say

scenario = typer.Typer(help="Make scenarios.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@scenario.callback()
def _group() -> None:
    """Make scenarios."""


@scenario.command("from-vllm")
def from_vllm(
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
    with one_line_errors():
        from dpsim.vllm import from_vllm as translation

        try:
            text = sys.stdin.read() if command == "-" else command
        except UnicodeDecodeError as error:
            fail(f"standard input is no text: {error}; expected commands in UTF-8", BAD_INPUT)
        translated = translation.from_vllm(text, release)
        for remark in translated.remarks:
            note(f"dpsim: {remark}")
        if output is None:
            say(translated.text().rstrip("\n"))
        else:
            try:
                output.write_text(translated.text(), encoding="utf-8")
            except OSError as error:
                error.filename = error.filename or str(output)  # a write that fails names no file
                raise
            note(f"dpsim: wrote {output}; next: dpsim run {output}")
