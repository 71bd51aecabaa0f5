"""Stops programs that would end their process: in the simulation this process runs all ranks, and dpsim itself.

On a real backend, a call such as `os._exit` ends only one rank, and the other ranks report it. Here the functions below
raise `ProcessExit` while a run lasts. So the report contains a finding CRASH:PROCESSEXIT, with the rank and the line.

    os._exit, os.abort, os.execv, os.execve      always
    os.kill, os.killpg, signal.raise_signal      with a signal that would end this process

The simulation allows some exits. A signal for which Python has a handler is sent, for example SIGINT for Ctrl-C, and so
is a signal to another process. A process that the program forks during a run may end. `sys.exit` raises SystemExit,
which is a finding like any exception.

The simulation cannot catch some exits: a C library that calls `exit`, and a segmentation fault. Nor can a function that
the program imported by name before the run (`from os import _exit`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any

HARMLESS = {
    getattr(signal, name) for name in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGINFO") if hasattr(signal, name)
}
"""Signals that end no process."""


class ProcessExit(SystemExit):
    """The program called a function that would have ended the process."""


class NoExits:
    """A context manager: while it lasts, no program can end this process."""

    def __enter__(self) -> None:
        OWNER[0] = os.getpid()
        os._exit, os.abort, os.execv, os.execve = _exit, _abort, _execv, _execve  # type: ignore[assignment]
        os.kill, os.killpg, signal.raise_signal = _kill, _killpg, _raise_signal

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os._exit, os.abort, os.execv, os.execve, os.kill, os.killpg, signal.raise_signal = ORIGINALS


ORIGINALS: tuple[Any, ...] = (
    os._exit,
    os.abort,
    os.execv,
    os.execve,
    os.kill,
    os.killpg,
    signal.raise_signal,
)
OWNER = [0]
"""The id of the process that runs programs. A forked child has another id, and may end."""


def _refuse(what: str, original: Callable[..., Any], *args: Any) -> Any:
    if os.getpid() == OWNER[0]:
        raise ProcessExit(f"{what} would end the process of this rank")
    return original(*args)


def _exit(status: int) -> Any:
    return _refuse(f"os._exit({status})", ORIGINALS[0], status)


def _abort() -> Any:
    return _refuse("os.abort()", ORIGINALS[1])


def _execv(path: Any, args: Any) -> Any:
    return _refuse("os.execv", ORIGINALS[2], path, args)


def _execve(path: Any, args: Any, environment: Any) -> Any:
    return _refuse("os.execve", ORIGINALS[3], path, args, environment)


def _kill(pid: int, number: int) -> Any:
    if pid == os.getpid() and _ends(number):
        return _refuse(f"os.kill(own process, {_named(number)})", ORIGINALS[4], pid, number)
    return ORIGINALS[4](pid, number)


def _killpg(group: int, number: int) -> Any:
    if group in (0, os.getpgrp()) and _ends(number):
        return _refuse(f"os.killpg(own group, {_named(number)})", ORIGINALS[5], group, number)
    return ORIGINALS[5](group, number)


def _raise_signal(number: int) -> Any:
    if _ends(number):
        return _refuse(f"signal.raise_signal({_named(number)})", ORIGINALS[6], number)
    return ORIGINALS[6](number)


def _ends(number: int) -> bool:
    if not number or number in HARMLESS:  # signal 0 only tests whether the process exists
        return False
    return signal.getsignal(number) == signal.SIG_DFL


def _named(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
