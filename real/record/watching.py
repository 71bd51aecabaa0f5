"""Reports that a recorded process is alive, and where it is when its program makes no calls.

Twice a second, a thread writes that the process is alive, and how many calls the library counts in each group. When the
program makes no call for a while, the thread writes the lines of all threads into a file beside the recording. A later
call empties that file.

If a program holds Python's lock (the GIL), that thread cannot run. For this case Python's fault handler has a timer in
C, which the thread restarts each time. The timer must fire only in this case, because it reads the frames of threads
while they run. With Python 3.11, that crashed one of some forty jobs.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing import util
from types import TracebackType

from dpsim.contract.recording import STACKS
from real.record.ring import RecordingFile

EVERY_S = 0.5
QUIET_S = float(os.environ.get("DPSIM_RECORD_QUIET", "15"))
"""After this number of seconds without a call, the thread writes the lines."""
END_S = 5.0
LOCKED_S = 15.0
"""After this number of seconds, the program counts as holding Python's lock. A busy machine must not look like that."""


def watch(file: RecordingFile, counts: Callable[[], Iterable[tuple[int, int]]]) -> None:
    """Watches this process from now on. `counts`: returns the groups, and how many calls the library counts in each."""
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(file, counts, over), name="dpsim recorder", daemon=True)
    thread.start()
    _notice_the_end(file, over, thread)


def _watch(file: RecordingFile, counts: Callable[[], Iterable[tuple[int, int]]], over: threading.Event) -> None:
    last: tuple[int, tuple[tuple[int, int], ...]]
    stacks = file.path.with_name(file.path.name + STACKS).open("wb", buffering=0)
    last, since, written = (-1, ()), time.monotonic(), False
    while not over.is_set():
        faulthandler.dump_traceback_later(LOCKED_S, file=stacks)
        file.alive()
        now = file.last, tuple(counts())
        for group, calls in now[1]:
            file.counted(group, calls)
        if now[1] != last[1]:
            file.moved()
        if now != last:
            last, since = now, time.monotonic()
            if written:
                stacks.truncate(0)
                stacks.seek(0)
                written = False
        elif not written and time.monotonic() - since >= QUIET_S:
            faulthandler.dump_traceback(file=stacks)  # holds Python's lock: no thread runs meanwhile
            written = True
        over.wait(EVERY_S)


def _notice_the_end(file: RecordingFile, over: threading.Event, thread: threading.Thread) -> None:
    before, owner, failed = sys.excepthook, os.getpid(), []

    def raised(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() == owner:
            file.ended("raised", f"{kind.__name__}: {error}")
            failed.append(kind)
        before(kind, error, trace)

    def ended() -> None:
        if os.getpid() == owner and not over.is_set():
            over.set()
            thread.join(END_S)  # if Python ended this thread within a C++ call, the process would abort
            faulthandler.cancel_dump_traceback_later()
            error = _ends_by()
            if error is not None:
                file.ended("raised", f"{type(error).__name__}: {error}")
            elif not failed:
                file.ended("ended")

    sys.excepthook = raised
    atexit.register(ended)
    util.Finalize(None, ended, exitpriority=-1_000)  # a forked process runs no atexit functions


def _ends_by() -> BaseException | None:
    """torch's `spawn` catches the exception that ends its process, and exits with a code."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        return error.__context__ if error.code else None
    return error
