"""What the command line says and how it ends: plain text, errors in one line, exit codes that scripts can rely on.

    0  the run is as its scenario expects; the traces are equal; the engine answers as dpsim says
    1  it is not
    2  bad input: a scenario, a name, an option or a file that cannot be used as it is
    3  this machine cannot run it, or took away what the run needs (a process, memory, room on a disk). Or this
       backend cannot show what is expected, or dpsim cannot ask an installed engine. The message names what is missing
    130  interrupted; 143 terminated; 128 + N for another signal. The message says where every rank stood

Results go to stdout, everything else to stderr. There are no colours, bars or line breaks to fit a width unless the
stream is a terminal, so `grep` can search what is piped. A mistake of the user, a full disk or `dpsim run ... | head`
gives no traceback. Prior art: the command line interface guidelines (clig.dev); `rg` and `git` on broken pipes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TextIO

import typer

from dpsim.cli.json_alone import OUTPUT, object_text, stdout
from dpsim.cli.json_alone import ask as ask  # commands of other packages call it
from dpsim.cli.protocol_errors import at_own_place, raised_by_protocol
from dpsim.cli.timer import Timer
from dpsim.contract.words import BadInput, printable

NOT_MET = 1
BAD_INPUT = 2
CANNOT_RUN = 3
INTERRUPTED = 130
PIPE_CLOSED = 141  # what a shell makes of SIGPIPE


class Terminated(KeyboardInterrupt):
    """A signal that asks the command to end: as Ctrl-C, but for the exit code, which is a shell's."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.code = 128 + number
        self.how = "terminated" if number == signal.SIGTERM else f"ended by {signal.Signals(number).name}"


def how_interrupted(error: KeyboardInterrupt) -> tuple[str, int]:
    """In words, and the exit code."""
    return getattr(error, "how", "interrupted"), getattr(error, "code", INTERRUPTED)


def end_by_interrupt(error: KeyboardInterrupt) -> NoReturn:
    """Say what was done, if anything was, and where the run stood."""
    how, code = how_interrupted(error)
    done = str(getattr(error, "done", ""))
    fail("\n".join([f"{how}; {done}" if done else f"{how}, without a result", *getattr(error, "__notes__", ())]), code)


def say(text: str = "") -> None:
    """Print to stdout. If the reader has gone away, the program ends silently; if the disk is full, it says so."""
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
    """Print the object of a command."""
    say(object_text(found))


def say_error(message: str, code: int) -> None:
    """Print the object of a command that ends with an error, if its user gave `--json` and has no object yet."""
    if OUTPUT.asked and not OUTPUT.said:
        say_json({"error": {"exit_code": code, "message": message}})


def _shown(line: str) -> str:
    """A line with nothing in it that a terminal obeys but our own colours."""
    return (
        line if line.isprintable() else "".join(part if part in COLOURS else printable(part) for part in _PARTS(line))
    )


COLOURS = ("\x1b[1m", "\x1b[0m", "\x1b[31m", "\x1b[32m")
_PARTS = re.compile(r"(\x1b\[[0-9;]*m)").split


def write(path: Path, text: str) -> None:
    """Write a file that is there as a whole, or as it was before. Raises OSError that names it."""
    from dpsim.trace.appearing import appearing

    try:
        with appearing(path) as file:
            file.write(text.encode())
    except OSError as error:
        error.filename = str(path)
        raise


def note(text: str) -> None:
    """Print to stderr, if there is one."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def fail(message: str, code: int) -> NoReturn:
    """Say on stderr what is wrong, and end."""
    lines = [printable(line) for line in (message or "unknown error").splitlines()]
    note("\n".join(f"dpsim: {line}" for line in lines))
    if code in (BAD_INPUT, CANNOT_RUN):
        say_error("\n".join(lines), code)
    raise typer.Exit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn expected errors into a message and an exit code. What is not expected goes through: it is a bug."""
    try:
        yield
    except typer.Exit:  # chosen, whatever it came of
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
        said = raised_by_protocol(error)
        if said is None:
            raise
        fail(said, BAD_INPUT)
    except BaseException as error:  # SystemExit(0) of a protocol would pass for "as expected"
        fail(raised_by_protocol(error) or f"ended by {type(error).__name__}{at_own_place(error)}", BAD_INPUT)


def lacking(error: BaseException) -> str:
    """What the machine took away where this was raised, in a line; empty if it is no trouble of the machine."""
    from dpsim.backend.journal.trouble import trouble

    return trouble(error)


def code_of(error: OSError) -> int:
    """That of a call of the system that failed: a full disk is trouble of the machine, a folder that is none is not."""
    return CANNOT_RUN if lacking(error) else BAD_INPUT


def _exit_code(error: Exception) -> int | None:
    """That of an error that a user can do something about; None for any other."""
    from dpsim.contract.world import BackendUnavailable, Unended

    if isinstance(error, BackendUnavailable | Unended):
        return CANNOT_RUN
    return BAD_INPUT if isinstance(error, BadInput) else None


def silence(stream: TextIO) -> None:
    """Let what is still buffered go nowhere, so that Python does not complain at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# ---- text


def is_terminal(stream: TextIO | None) -> bool:
    """Whether it is a terminal. A stream that was closed before dpsim started is None."""
    return stream is not None and stream.isatty()


def columns(rows: Iterable[Sequence[str]], indent: int = 0) -> list[str]:
    """Rows with their cells in line, two spaces apart.

    On a terminal, a last cell that is too long goes on below itself; `indent`: columns that the caller puts before.
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
    """Text with its first word in green or red, if stdout is a terminal that has colours."""
    if not is_terminal(sys.stdout) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    word, space, rest = text.partition(" ")
    return typer.style(word, fg="green" if good else "red", bold=True) + space + rest


# ---- progress


class Progress:
    """Steps done so far, on stderr: a bar on a terminal, else a line every ten seconds. Quick work shows nothing.

    A timer shows it also where no step is reported: before the first one, and after the last. It is a signal and no
    thread, since this process forks. Where other code uses that signal, reports alone show it.
    """

    AFTER_S = 0.5
    LINE_EVERY_S = 10.0
    DRAW_EVERY_S = 0.1
    TICK_S = 1.0

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic, unit: str = "step") -> None:
        self.title = title
        self._unit = unit
        self._clock = clock
        self._start = self._last = clock()
        self._terminal = is_terminal(sys.stderr)
        self._bar: Any = None
        self._task: Any = None
        self._done: tuple[int, int | None] | None = None
        self._told = ""
        self._timer = Timer(self.TICK_S, self._show)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.stop()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """`done`: steps, from 0; `total`: None if it is not known."""
        self._done = done, total
        self._show()

    def told(self, line: str) -> None:
        """How far it is, in words that stand for the number of steps."""
        self._told = line

    def phase(self, title: str) -> None:
        """What is being done now."""
        self.title, self._done = title, None
        if self._bar is not None:
            self._draw(title, 0, None)

    def _show(self) -> None:
        now = self._clock()
        if self._terminal:
            if now - self._start >= self.AFTER_S and now - self._last >= self.DRAW_EVERY_S:
                self._last = now
                title = f"{self.title}: {self._told}" if self._told else self.title
                self._draw(title, *(self._done or (0, None)))
        elif now - self._last >= self.LINE_EVERY_S:
            self._last = now
            done, total = self._done or (0, None)
            of = "" if total is None else f" of {total}"
            how_far = f"no {self._unit} yet" if self._done is None else self._told or f"{self._unit} {done}{of}"
            note(f"dpsim: {self.title}: {how_far} after {now - self._start:.0f} s")

    def _draw(self, title: str, done: int, total: int | None) -> None:
        if self._bar is None:
            self._bar, self._task = _new_bar()
        self._bar.update(self._task, description=title, completed=max(done, 0), total=total)
        self._bar.refresh()


def _new_bar() -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    parts = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bar = Bar(*parts, *times, console=Console(stderr=True, force_terminal=True), auto_refresh=False, transient=True)
    bar.start()
    return bar, bar.add_task("", total=None)
