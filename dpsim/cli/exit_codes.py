"""The exit codes of each command, for its `--help`. docs/exit-codes.md explains them."""

from __future__ import annotations

import typer

JUDGED = "0 as expected, 1 not as expected"
DONE = "0 done"
FIRST = {
    "run": JUDGED,
    "explore": JUDGED,
    "compare": "0 the traces are equal, 1 they are not",
    "replay": "0 the run is that of the trace, 1 it is not",
    "museum": "0 all variants are as registered, 1 one is not",
    "check-engine": "0 the engine answers as dpsim does, 1 it does not",
    "explain": "0 there is an explanation",
    "export": "0 there is a picture",
    "record": "that of the job",
}
"""By command: what its result means. Other commands end with 0 if they are done."""

REST = "2 bad input, 3 cannot be run on this machine, or lost there. "
BESIDE = "Also 70 a bug in dpsim, 130 interrupted, 141 nothing reads the output, 128 + N ended by signal N."

ALL = f"Exit codes: {JUDGED}, {REST}{BESIDE}"
"""For `dpsim --help`."""


def in_help(*apps: typer.Typer) -> None:
    """Put the exit codes below the help of each command, where its own help ends with nothing else."""
    for app in apps:
        for command in app.registered_commands:
            command.epilog = command.epilog or f"Exit codes: {FIRST.get(command.name or '', DONE)}, {REST}{BESIDE}"
