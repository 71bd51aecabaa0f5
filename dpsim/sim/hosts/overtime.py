"""The time is up, and a program goes on without a call that leaves a record: `while True: pass`, or `buffer.view()`.

dpsim looks at the clock when a program issues an op, and such a loop issues none. So during a search with a time limit,
a thread of this process observes the main thread. After the limit, it raises `Overtime` in the main thread. It does so
only while code of the program runs, so it never interrupts the simulation itself.

    with interrupted(lambda: time.monotonic() > end):
        backend.run_program(world, program, None)       # raises OutOfTime, which says at which line a rank stood

A program that waits for a lock of Python's own, which a thread of its rank holds, waits in C. There a signal breaks it
off, in the main thread alone. Another call into a C library that does not come back cannot be broken off. A program
that catches BaseException gets it again and again.

Prior art: `PyThreadState_SetAsyncExc`, as debuggers and notebooks use it. `SIGALRM` is left to pytest-timeout.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from dpsim.backend.journal.call_site import is_library, is_own_code, raised_at
from dpsim.contract.registry import packages

LOOK_SECONDS = 0.05
SIGNAL = signal.SIGUSR2


class Overtime(BaseException):
    """Raised within a program when the time for all runs is up."""

    def where(self) -> str:
        """Which rank stood at which line."""
        rank = next((one for one in map(_rank_of, _frames(self.__traceback__)) if one is not None), None)
        who = "the program" if rank is None else f"rank {rank}"
        return f"{who} runs on at {raised_at(self, packages())}, without a call that leaves a record"


@contextmanager
def interrupted(expired: Callable[[], bool]) -> Iterator[None]:
    """While this lasts, a program of this thread that goes on beyond its time is broken off."""
    over, thread = threading.Event(), threading.get_ident()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            if expired():
                _raise_in(thread, over)

    def signalled(number: int, frame: FrameType | None) -> None:
        if expired() and not over.is_set():
            raise Overtime

    main = thread == threading.main_thread().ident
    before = signal.signal(SIGNAL, signalled) if main else None
    watcher = threading.Thread(target=watch, name="overtime", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if before is not None:
            signal.signal(SIGNAL, before)


def _raise_in(thread: int, over: threading.Event) -> None:
    """Raise Overtime in a thread, if it runs a program's code."""
    if over.is_set() or not _in_program(sys._current_frames().get(thread)):
        return
    if thread == threading.main_thread().ident:
        signal.pthread_kill(thread, SIGNAL)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Overtime))


def _in_program(frame: FrameType | None) -> bool:
    """Whether a frame is of a program or of a library that it called, and both within a run."""
    mine = packages()
    while frame is not None and not is_own_code(frame) and is_library(frame, mine):
        frame = frame.f_back
    if frame is None or is_own_code(frame):
        return False
    while frame is not None:
        if frame.f_globals.get("__name__") == RUNS and frame.f_code.co_name in LIVES:
            return True
        frame = frame.f_back
    return False


RUNS = "dpsim.sim.calls.life"
LIVES = ("live", "live_beside")
"""The coroutines in which a rank and a host thread of it live."""


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _rank_of(frame: FrameType) -> Any:
    if frame.f_globals.get("__name__") == RUNS and frame.f_code.co_name in LIVES:
        return frame.f_locals["rank"].rank
    return None
