"""The exit codes of `dpsim`, each with its meaning. Commands, their `--help`, and docs/exit-codes.md use this table.

>>> CODES[BAD_INPUT].outcome[0][:9]
'bad input'

If a signal ends a command, its exit code is 128 plus the number of the signal, as in a shell.
"""

from __future__ import annotations

from typing import NamedTuple

import typer

AS_EXPECTED = 0
NOT_MET = 1
BAD_INPUT = 2
CANNOT_RUN = 3
BUG = 70
"""EX_SOFTWARE of sysexits.h: neither a verdict nor a mistake of the user."""
INTERRUPTED = 130
PIPE_CLOSED = 141
"""The exit code that a shell reports for SIGPIPE."""
TERMINATED = 143

ASK_TO_END = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGALRM", "SIGXCPU")
"""Signals at which a command ends as after Ctrl-C, and removes its temporary files. Slurm warns a job with SIGUSR1."""


class ExitCode(NamedTuple):
    """The meaning of an exit code. `outcome`: a line for each case. `output`: where the command prints details."""

    outcome: tuple[str, ...]
    output: str


CODES = {
    AS_EXPECTED: ExitCode(
        (
            "the outcome is the expected one",
            "two traces are equal; a replay is the same run",
            "an engine answers like dpsim, except for named departures",
        ),
        "on stdout",
    ),
    NOT_MET: ExitCode(
        (
            "the outcome is another one: an unexpected finding, or no finding although the scenario expects one",
            "`explore` judged no schedule, or a schedule did not end although it kept no event waiting",
            "a run of `explore --against` shows what no schedule of a proven world shows",
            "an engine answers differently",
        ),
        "on stdout",
    ),
    BAD_INPUT: ExitCode(
        (
            "bad input: a scenario, a run that is too large (`--memory`), an engine's command line, a name, an option",
            "a file that dpsim cannot use, or a pipe in place of a file",
            "an exception of a protocol outside of its run (import, `prepare`, `figures`)",
        ),
        "a line on stderr",
    ),
    CANNOT_RUN: ExitCode(
        (
            "no verdict: this machine cannot run the scenario, this backend cannot show the expected finding, or the "
            "machine took a resource away",
            "dpsim cannot ask the installed engine (an unknown release, a missing function)",
        ),
        "`LOST` with the report, `NO VERDICT`, or a line on stderr",
    ),
    BUG: ExitCode(("a bug in dpsim",), "a traceback on stderr"),
    INTERRUPTED: ExitCode(
        ("Ctrl-C interrupted the command: the results so far, and the position of every rank",), "on stderr"
    ),
    PIPE_CLOSED: ExitCode(("the reader of the output went away, as in `dpsim list | head -1`",), "none"),
    TERMINATED: ExitCode(("SIGTERM ended the command, and its output is as after Ctrl-C",), "on stderr"),
}

# ---- in the help of commands

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
    "nightly": "0 nothing failed, 1 something failed, known or new, or no part ran anything",
    "report": "0 nothing failed in that night, 1 something failed, known or new, or no part ran anything",
    "record": "that of the job",
}
"""What codes 0 and 1 mean for each command. Any other command returns 0 when it is done."""

REST = "2 bad input, 3 cannot be run on this machine, or lost there. "
BESIDE = "Also 70 a bug in dpsim, 130 interrupted, 141 nothing reads the output, 128 + N ended by signal N."

ALL = f"Exit codes: {JUDGED}, {REST}{BESIDE}"


def in_help(*apps: typer.Typer) -> None:
    """Adds the exit codes to the help of each command that has no text below its help yet."""
    for app in apps:
        for command in app.registered_commands:
            command.epilog = command.epilog or f"Exit codes: {FIRST.get(command.name or '', DONE)}, {REST}{BESIDE}"
