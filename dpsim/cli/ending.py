"""Ends the process of a command, so that its exit code is always the one that the command line chose.

    main()      # the entry point of the script `dpsim`; does not return

`os._exit(0)` or `os.execvp("true", ...)` in a protocol would look like "as expected". If OpenBLAS has no memory, it
calls exit(1) of C, and a script reads 1 as a verdict. In these cases dpsim ends with code 3 and prints a line. It
cannot intercept `_exit` of C.

The command itself ends by the original `os._exit`, after Python's exit functions. A forked process may end in any way.
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
"""How many bytes a process must be able to allocate, or it counts as out of memory."""
_leave = os._exit
REPLACES = "execv", "execve"
"""Functions that replace this program with another, whose exit code would look like dpsim's."""

_kept: list[Any] = []
"""Callbacks that C code calls, kept here because Python must not collect them."""


def main() -> NoReturn:
    """Runs the command line, and ends the process with its exit code."""
    watch()
    code: Any = 0
    try:
        from dpsim.cli.app import main as run

        run()
    except SystemExit as end:
        code = end.code
    except BaseException as error:  # Python must not end by itself: the callback at C's exit needs Python
        code = NO_VERDICT if _for_lack_of_memory(error) else BUG
        if code == NO_VERDICT:
            _say(b"dpsim: no memory\n")
        else:
            sys.excepthook(type(error), error, error.__traceback__)
    _end(code)


def _for_lack_of_memory(error: BaseException | None) -> bool:
    """Searches the chain, because a handler of a MemoryError imports modules and may raise another error."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        error = error.__context__
    try:  # Python raises various errors where its compiler cannot allocate
        bytearray(ROOM)
    except MemoryError:
        return True
    return False


def watch() -> None:
    """From now on, makes every end of this process other than by `main` print a line and return code 3."""
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
    with suppress(AttributeError, OSError, ValueError):  # a C library without __cxa_atexit
        called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(exits)
        _kept.append(called)
        ctypes.CDLL(None).__cxa_atexit(called, None, None)


def _refused(owner: int, name: str) -> Any:
    """A forked process still calls the original, and `dpsim record` calls it by `__wrapped__`."""
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
    while frame.f_back is not None and frame.f_code.co_filename.startswith("<"):  # a frozen module of Python
        frame = frame.f_back
    return f" in {os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"


def _say(text: bytes) -> None:
    """Writes to the descriptor of stderr, because Python's streams may be closed or in use."""
    with suppress(OSError):
        os.write(2, text)


def _end(code: Any) -> NoReturn:
    """Ends the process like the Python interpreter, but without the exit functions of C."""
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
