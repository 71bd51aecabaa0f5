"""Which exceptions end only the rank that raises them, and which come from outside of the program and end the run.

    raise ValueError                    # CRASH:VALUEERROR
    raise KeyboardInterrupt             # of a program: CRASH:KEYBOARDINTERRUPT
    Ctrl-C                              # during a program: the command ends

An `Exception` and `SystemExit` are always findings. Any other `BaseException` is a finding if a line of the program
raises it. But Python itself raises `KeyboardInterrupt` after a signal, and `GeneratorExit` in a coroutine that is
closed; a test library raises exceptions that end a test. These end the run. They are recognized by the innermost frame:
it is at no `raise` statement of the program, or in a handler.

If a user leaves the debugger pdb during a run, the command also ends: `breakpoint()` in a program, then `q`. In a test,
pytest ends (`dpsim.pytest_plugin`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dis import opname
from types import TracebackType
from typing import Any

from dpsim.backend.journal.call_site import is_library, is_own_code
from dpsim.backend.journal.misuse import ForeignAwait
from dpsim.contract.registry import packages


class DebuggerQuit(KeyboardInterrupt):
    """The user left pdb, so the run ends. `how`, `code`: the text that the command line prints, and its exit code."""

    how, code = "quit from the debugger", 130


def left_debugger(error: BaseException) -> bool:
    """Whether the user quit pdb, which raises BdbQuit. Python 3.14 raises SystemExit in pdb, and pytest raises Exit."""
    bdb = sys.modules.get("bdb")  # a run without a debugger has not imported bdb
    pytest = sys.modules.get("_pytest.outcomes")
    if isinstance(error, (() if bdb is None else bdb.BdbQuit, () if pytest is None else pytest.Exit)):
        return True
    if bdb is None or not isinstance(error, SystemExit) or error.__traceback__ is None:
        return False
    return bool(_innermost(error.__traceback__).tb_frame.f_globals.get("__name__") == "pdb")


def _innermost(trace: TracebackType) -> TracebackType:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


@contextmanager
def untraced() -> Iterator[None]:
    """Turns off the debugger while the block lasts: it would print the GeneratorExit of each program that is closed."""
    trace: Any = sys.gettrace()
    bdb = sys.modules.get("bdb")
    if trace is None or bdb is None or not isinstance(getattr(trace, "__self__", None), bdb.Bdb):
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def breaks_off_rank(error: BaseException, own: Collection[str] | None = None) -> bool:
    """Whether an error ends its rank, not the run. `own`: packages of protocols, by default the registered ones."""
    if isinstance(error, Exception | SystemExit | ForeignAwait):
        return not left_debugger(error)
    if error.__traceback__ is None:
        return False
    trace = _innermost(error.__traceback__)
    frame, code = trace.tb_frame, trace.tb_frame.f_code
    if opname[code.co_code[trace.tb_lasti]] != "RAISE_VARARGS":
        return False
    if is_own_code(frame) or is_library(frame, packages() if own is None else own):
        return False
    return all(getattr(signal.getsignal(one), "__code__", None) is not code for one in signal.valid_signals())
