"""Ends a program that still runs after the time limit of a search without calling dpsim, as in `while True: pass`.

dpsim checks the clock when a program issues an op, and a loop such as `while True: pass` issues none. So during a
search with a time limit, a second thread of this process watches the main thread. After the limit, it raises `Overtime`
in the main thread. It does so only while the main thread runs code of the program, so it never interrupts the
simulation itself.

    with interrupted(lambda: time.monotonic() > end):
        backend.run_program(world, program, None)       # raises OutOfTime, which says at which line a rank stood

If a program waits for a Python lock that another host thread of its rank holds, it waits in C code. A signal interrupts
that wait, in the main thread only. Other calls into a C library that do not return cannot be interrupted. If a program
catches BaseException, the exception is raised again and again.

Prior art: `PyThreadState_SetAsyncExc`, as debuggers and notebooks use it. `SIGALRM` is left to pytest-timeout.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dpsim.backend.journal.call_site import is_library, is_own_code, raised_at
from dpsim.contract.registry import packages

LOOK_SECONDS = 0.05
SIGNAL = signal.SIGUSR2


class Overtime(BaseException):
    """Raised within a program when the time limit has passed."""

    def where(self) -> str:
        """Returns which rank was at which line."""
        ranks = (_rank_of(frame) for frame, _ in traceback.walk_tb(self.__traceback__))
        rank = next((one for one in ranks if one is not None), None)
        who = "the program" if rank is None else f"rank {rank}"
        return f"{who} runs on at {raised_at(self, packages())}, without a call that leaves a record"


@contextmanager
def interrupted(expired: Callable[[], bool]) -> Iterator[None]:
    """While the block lasts, a program in this thread that runs past the limit is interrupted."""
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
    if over.is_set() or not _in_program(sys._current_frames().get(thread)):
        return
    if thread == threading.main_thread().ident:
        signal.pthread_kill(thread, SIGNAL)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Overtime))


def _in_program(frame: FrameType | None) -> bool:
    """Whether a frame belongs to a program, or to a library that a program called, within a run."""
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
"""The names of the coroutines that run a rank and a further host thread."""


def _rank_of(frame: FrameType) -> Any:
    if frame.f_globals.get("__name__") == RUNS and frame.f_code.co_name in LIVES:
        return frame.f_locals["rank"].rank
    return None
