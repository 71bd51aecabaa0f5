"""How the process of a command ends: always as the command line has chosen, and with a word.

    main()      # what the script `dpsim` calls; does not return

A protocol or a library may end the process by itself. `os._exit(0)` in a module would pass for "as expected", and so
would `os.execvp("true", ...)`. OpenBLAS calls exit(1) of C where it gets no memory, and scripts read 1 as a verdict.
All of these end with 3 here, and a line says so. `_exit` of C ends the process at once.

So the command itself leaves by `os._exit`, after Python's own exit functions. Processes that this one forks end as they
like. A signal that ends the process is its parent's to report.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import os
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

NO_VERDICT, BUG = 3, 70
ROOM = 4 << 20
"""Bytes that a process with memory has left."""
_leave = os._exit
REPLACES = "execv", "execve"
"""What puts another program in the place of this one, whose exit status would be ours."""

_kept: list[Any] = []
"""Functions that C calls must not be collected."""


def main() -> NoReturn:
    """Run the command line, and leave with its exit code."""
    watch()
    code: Any = 0
    try:
        from dpsim.cli.app import main as run

        run()
    except SystemExit as end:
        code = end.code
    except BaseException as error:  # Python must not end by itself: what C calls at its exit needs Python
        code = NO_VERDICT if _for_lack_of_memory(error) else BUG
        if code == NO_VERDICT:
            _say(b"dpsim: no memory\n")
        else:
            sys.excepthook(type(error), error, error.__traceback__)
    _end(code)


def _for_lack_of_memory(error: BaseException | None) -> bool:
    """Whether memory ended here, or where this was raised: what handles a MemoryError imports modules, and may fail."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        error = error.__context__
    try:  # Python raises anything at all where an allocation fails within its compiler
        bytearray(ROOM)
    except MemoryError:
        return True
    return False


def watch() -> None:
    """From now on nothing but `main` ends this process without a word."""
    owner = os.getpid()

    def ended(status: int) -> NoReturn:
        if os.getpid() != owner:
            _leave(status)
        _say(f"dpsim: the process was ended by os._exit({status}){_by_whom()}: no verdict\n".encode())
        _leave(NO_VERDICT)

    def exits(_: int | None) -> None:
        if os.getpid() == owner:
            _say(b"dpsim: a library ended the process, perhaps without memory; its output says why: no verdict\n")
            _leave(NO_VERDICT)

    os._exit = ended
    for name in REPLACES:
        setattr(os, name, _refused(owner, name))
    with suppress(AttributeError, OSError, ValueError):  # a C library that has another name for it
        called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(exits)
        _kept.append(called)
        ctypes.CDLL(None).__cxa_atexit(called, None, None)


def _refused(owner: int, name: str) -> Any:
    """`os.execv` in this process; in those that it forks, the call as it was. `dpsim record` takes `__wrapped__`."""
    replace = getattr(os, name)

    @functools.wraps(replace)
    def replaced(*words: Any) -> Any:
        if os.getpid() == owner:
            _say(f"dpsim: the process was given up by os.{name}{_by_whom()}: no verdict\n".encode())
            _leave(NO_VERDICT)
        return replace(*words)

    return replaced


def _by_whom() -> str:
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith("<"):  # Python's own, frozen
        frame = frame.f_back
    return f" in {os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"


def _say(text: bytes) -> None:
    """By the descriptor: Python's own streams may be in any state."""
    with suppress(OSError):
        os.write(2, text)


def _end(code: Any) -> NoReturn:
    """As the interpreter ends, but for what C does at its exit."""
    if code is not None and not isinstance(code, int):
        _say(f"{code}\n".encode())
        code = 1
    with suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]  # threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    _leave(code or 0)
