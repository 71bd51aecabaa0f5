"""A program that ends its process ends all ranks of the simulation, and dpsim with them, without a word.

On a real backend only its own rank is gone, and the others report that. Here the functions by which
a process ends raise `ProcessExit` while a run lasts. So the run has a finding: CRASH:PROCESSEXIT, of that rank at that
line.

    os._exit, os.abort, os.execv, os.execve      always
    os.kill, os.killpg, signal.raise_signal      with a signal that would end this process

A signal that Python handles is sent, as that of Ctrl-C is, and so is one to another process. A process that was forked
within a run may end. `sys.exit` raises SystemExit, which is a finding as any exception is. What ends a process without
Python cannot be caught: a library that calls `exit`, an access of memory that is not there. Nor can a function that the
program imported by name before the run (`from os import _exit`).
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
"""Signals that no process ends by."""


class ProcessExit(SystemExit):
    """A program would have ended the process."""


class NoExits:
    """While this lasts, no program ends this process."""

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
"""The process that runs programs. A child that a program forks is another one, and may end."""


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
    """Whether a signal ends or stops this process, as Python does not handle it."""
    if not number or number in HARMLESS:  # 0 asks whether the process is there
        return False
    return signal.getsignal(number) == signal.SIG_DFL


def _named(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
