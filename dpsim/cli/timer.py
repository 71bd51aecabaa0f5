"""A timer that calls a function periodically in the main thread, even during a long computation.

    timer = Timer(1.0, show)
    timer.start()               # SIGALRM each second
    timer.stop()

It does nothing outside of the main thread, or if SIGALRM has a handler. A forked process has no timer. If the signal
interrupts a program, these frames count as a backend's code, so that a report names a line of the program.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

FREE: list[Any] = [signal.SIG_DFL]
"""The handlers of SIGALRM that the timer may replace. The command line adds its own handler."""


class Timer:
    """Calls `ring` every `period` seconds between `start` and `stop`."""

    def __init__(self, period: float, ring: Callable[[], None]) -> None:
        self._period = period
        self._ring = ring
        self._before: Any = None

    def start(self) -> None:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
            return
        if signal.getsignal(signal.SIGALRM) in FREE:
            from dpsim.backend.journal.call_site import own_code  # not at the top, because `dpsim --help` skips it

            own_code("dpsim.cli")
            self._before = signal.signal(signal.SIGALRM, self._rings)
            signal.siginterrupt(signal.SIGALRM, False)
            signal.setitimer(signal.ITIMER_REAL, self._period, self._period)

    def stop(self) -> None:
        if self._before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)
            self._before = None

    def _rings(self, number: int, frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the main thread writes to the same stream, so skip this time
            self._ring()
