"""The exit codes of `dpsim`, each with its outcome: for the commands, and for the table of docs/exit-codes.md.

    >>> CODES[BAD_INPUT].outcome[0][:9]
    'bad input'

A command adds 128 to the number of a signal that ends it, as a shell does.
"""

from __future__ import annotations

from typing import NamedTuple

AS_EXPECTED = 0
NOT_MET = 1
BAD_INPUT = 2
CANNOT_RUN = 3
BUG = 70
"""EX_SOFTWARE of sysexits.h: neither a verdict nor a mistake of the user."""
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell makes of SIGPIPE."""
TERMINATED = 143

ASK_TO_END = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGALRM", "SIGXCPU")
"""A command that gets one of these ends as with Ctrl-C and leaves nothing behind. Slurm warns with SIGUSR1."""


class ExitCode(NamedTuple):
    """`outcome`: what the code stands for, a line for each kind. `output`: where the command says more."""

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
