"""Prints results and errors of all commands, and maps errors to exit codes on which scripts can rely.

    0  the run is as its scenario expects; the traces are equal; the engine answers as dpsim says
    1  it is not
    2  bad input: a scenario, a name, an option or a file that dpsim cannot use
    3  no verdict: this machine cannot run the scenario, or took away a resource (a process, memory, room on a disk).
       Or the backend cannot show what is expected, or dpsim cannot ask an installed engine. The message names the cause
    130  interrupted; 143 terminated; 128 + N for another signal. The message says where every rank was

Results go to stdout, everything else to stderr. Colours, progress bars and wrapped lines are for terminals alone, so
that `grep` can search the output. A mistake of the user, a full disk or a closed pipe causes no traceback. Prior art:
clig.dev; `rg` and `git`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

from dpsim.cli.exit_codes import BAD_INPUT as BAD_INPUT  # commands of other packages use them
from dpsim.cli.exit_codes import CANNOT_RUN as CANNOT_RUN
from dpsim.cli.exit_codes import INTERRUPTED, PIPE_CLOSED
from dpsim.cli.exit_codes import NOT_MET as NOT_MET
from dpsim.cli.json_alone import OUTPUT, object_text, stdout
from dpsim.cli.json_alone import ask as ask  # commands of other packages call it
from dpsim.cli.progress import Progress as Progress
from dpsim.cli.protocol_errors import at_own_place, raised_by_protocol
from dpsim.cli.streams import is_terminal as is_terminal
from dpsim.cli.streams import note as note
from dpsim.cli.streams import silence as silence
from dpsim.contract.words import BadInput, printable


class Terminated(KeyboardInterrupt):
    """A signal ends the command as Ctrl-C does, with the exit code of a shell: 128 + the signal."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.code = 128 + number
        self.how = "terminated" if number == signal.SIGTERM else f"ended by {signal.Signals(number).name}"


def how_interrupted(error: KeyboardInterrupt) -> tuple[str, int]:
    """Returns how the command was interrupted, in words, and the exit code."""
    return getattr(error, "how", "interrupted"), getattr(error, "code", INTERRUPTED)


def end_by_interrupt(error: KeyboardInterrupt) -> NoReturn:
    """Prints what the command has done so far and where the run was, and ends the command."""
    how, code = how_interrupted(error)
    done = str(getattr(error, "done", ""))
    fail("\n".join([f"{how}; {done}" if done else f"{how}, without a result", *getattr(error, "__notes__", ())]), code)


def say(text: str = "") -> None:
    """Prints to stdout. Ends the command silently if the reader closed the pipe, and with an error on a full disk."""
    out = stdout()
    try:
        print("\n".join(map(_shown, text.split("\n"))), file=out, flush=True)
    except BrokenPipeError:
        silence(out)
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        silence(out)
        fail(f"cannot write to standard output: {error.strerror}", code_of(error))


def say_json(found: dict[str, Any]) -> None:
    """Prints the JSON object of a command."""
    say(object_text(found))


def say_error(message: str, code: int) -> None:
    """Prints the JSON object of an error, if the user gave `--json` and the command has not printed an object yet."""
    if OUTPUT.asked and not OUTPUT.said:
        say_json({"error": {"exit_code": code, "message": message}})


def _shown(line: str) -> str:
    return (
        line if line.isprintable() else "".join(part if part in COLOURS else printable(part) for part in _PARTS(line))
    )


COLOURS = ("\x1b[1m", "\x1b[0m", "\x1b[31m", "\x1b[32m")
_PARTS = re.compile(r"(\x1b\[[0-9;]*m)").split


def write(path: Path, text: str) -> None:
    """Writes a file, which is complete or unchanged even after an error. Raises OSError with its name."""
    from dpsim.trace.appearing import appearing

    try:
        with appearing(path) as file:
            file.write(text.encode())
    except OSError as error:
        error.filename = str(path)
        raise


def fail(message: str, code: int) -> NoReturn:
    """Prints an error to stderr, and ends the command with the exit code `code`."""
    lines = [printable(line) for line in (message or "unknown error").splitlines()]
    note("\n".join(f"dpsim: {line}" for line in lines))
    if code in (BAD_INPUT, CANNOT_RUN):
        say_error("\n".join(lines), code)
    raise typer.Exit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns expected errors into a message and an exit code. Passes other errors on, because they are bugs."""
    try:
        yield
    except typer.Exit:  # the command itself chose this code
        raise
    except KeyboardInterrupt as error:
        end_by_interrupt(error)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        fail(f"{name}{error.strerror or error}", code_of(error))
    except MemoryError:
        fail("no memory", CANNOT_RUN)
    except Exception as error:
        code = _exit_code(error)
        if code is not None:
            fail(str(error), code)
        lacked = lacking(error)
        if lacked:
            fail(lacked, CANNOT_RUN)
        raised_text = raised_by_protocol(error)
        if raised_text is None:
            raise
        fail(raised_text, BAD_INPUT)
    except BaseException as error:  # without this, SystemExit(0) of a protocol looks like success
        fail(raised_by_protocol(error) or f"ended by {type(error).__name__}{at_own_place(error)}", BAD_INPUT)


def lacking(error: BaseException) -> str:
    """Returns a line on the resource that the machine took away and so caused this error, or "" for any other error."""
    from dpsim.backend.journal.trouble import trouble

    return trouble(error)


def code_of(error: BaseException) -> int:
    """Returns the exit code for an error in input: 3 for trouble of the machine, such as a full disk, otherwise 2."""
    return CANNOT_RUN if lacking(error) else BAD_INPUT


def _exit_code(error: Exception) -> int | None:
    from dpsim.contract.world import BackendUnavailable, Unended

    if isinstance(error, BackendUnavailable | Unended):
        return CANNOT_RUN
    return BAD_INPUT if isinstance(error, BadInput) else None


# ---- text


def columns(rows: Iterable[Sequence[str]], indent: int = 0) -> list[str]:
    """Returns rows with aligned cells, two spaces apart, each behind `indent` columns of the caller. On a terminal, a
    long last cell continues on the next line, below its own start.
    """
    table = list(rows)
    if not table:
        return []
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]) - 1)]
    start = sum(widths) + 2 * len(widths)
    room = shutil.get_terminal_size().columns - indent - start if is_terminal(sys.stdout) else 0
    lines = []
    for row in table:
        first = "".join(f"{cell.ljust(width)}  " for cell, width in zip(row, widths, strict=False))
        last = textwrap.wrap(row[-1], room, break_long_words=False) if room >= 30 else [row[-1]]
        lines += [first + part if not number else " " * start + part for number, part in enumerate(last or [""])]
    return [line.rstrip() for line in lines]


def painted(text: str, good: bool) -> str:
    """Returns `text` with its first word in green or red, if stdout is a terminal with colours."""
    if not is_terminal(sys.stdout) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    word, space, rest = text.partition(" ")
    return typer.style(word, fg="green" if good else "red", bold=True) + space + rest
