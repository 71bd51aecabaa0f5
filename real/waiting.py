"""How the host thread of a rank waits, and how its wait can be ended without the peer.

If a peer never arrives, the wait for it has to end all the same. There are two ways, one per backend:

- *blocking* (gloo): the thread blocks inside torch and cannot be interrupted, so the parent kills the process.
- *polling* (NCCL): the thread polls whether the operation has ended, and whether the parent has given up the run. A
  process with a CUDA context is expensive to start. So its main thread must never block inside a C call that waits for
  the device.

On both backends, the exception `Unfinished` ends a hopeless wait; no protocol may catch it. It also replaces gloo's
error if the *process* of a peer has ended. On every other backend this rank would wait without end, so its end is
"blocked" and not "raised".

    patience = Patience(give_up=threading.Event(), polls=True)
    patience.until(event.query)            # a CUDA event, polled
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn, Protocol, TypeVar

from dpsim.contract.interface import Frozen

T = TypeVar("T")

SPIN_NS = 2_000_000
"""For this time a wait polls without a pause: a collective takes 20 to 100 us on NVLink, 200 us on gloo. A pause of 20
us would take 75, because of the slack of the kernel's timers.
"""

POLLS = 32
"""After this number of polls, a wait checks the clock, and whether the parent has given up the run."""

BRIEF_NS = 20_000_000
"""For this time the pauses between polls are short. A longer wait means a slow peer or a hang, so it should not use the
core.
"""

GLANCE_SECONDS = 0.05
GLANCE = timedelta(seconds=GLANCE_SECONDS)
"""The interval at which a sleeping host checks whether it should wait any longer."""

ATTEMPT_SECONDS = 0.005
"""The pause between two attempts to reach a peer that may not be ready yet."""

# gloo's messages when a peer has closed the connection. gloo has no special exception for this.
_PEER_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused")


class Unfinished(BaseException):
    """The rank waits for something that will never happen. It is a BaseException, so that no protocol catches it."""


class Dismissed(BaseException):
    """The rank waits in an idle get, and no rank is left that could send to it: its program has ended well."""


class Receiver(Protocol):
    """A queue into which a thread of this process puts objects."""

    def get(self, *, timeout: float) -> Frozen:
        """Returns the next object. Raises queue.Empty if there is none within `timeout` seconds."""


class Patience:
    """How one rank waits, and how long it has waited (`waited_ns`, without planted delays and sleeps)."""

    def __init__(
        self,
        give_up: threading.Event,
        polls: bool,
        dismissed: threading.Event | None = None,
        crowded: bool = False,
    ) -> None:
        """`crowded`: other ranks need the cores, so each poll slows them down."""
        self.give_up = give_up
        self.dismissed = dismissed or threading.Event()
        self.polls = polls
        self._crowded = crowded
        self.waited_ns = 0

    def until(self, ready: Callable[[], bool]) -> None:
        """Polls until `ready()`. Raises Unfinished when the parent gives up the run."""
        now = time.perf_counter_ns
        start = now()
        try:
            while now() - start < SPIN_NS:
                for _ in range(POLLS):
                    if ready():
                        return
                self.check()
            while not ready():
                self.check()
                time.sleep(20e-6 if now() - start < BRIEF_NS else 500e-6)
        finally:
            self.waited_ns += now() - start

    def within(self, ready: Callable[[], bool], timeout_ns: int) -> bool:
        """Polls until `ready()`, at most for this time. Returns whether it is ready."""
        end = time.perf_counter_ns() + timeout_ns
        over = False

        def ready_or_late() -> bool:
            nonlocal over
            over = ready()
            return over or time.perf_counter_ns() >= end

        self.until(ready_or_late)
        return over

    def ask(self, ready: Callable[[], bool]) -> bool:
        """Returns whether it is ready now. If the parent has given up the run, a host that polls in a loop gets
        Unfinished here.
        """
        self.check()
        return ready()

    def event(self, event: threading.Event) -> None:
        """Waits until a thread of this process sets `event`."""
        start = time.perf_counter_ns()
        try:
            while not event.wait(GLANCE_SECONDS if self.polls else None):
                self.check()
        finally:
            self.waited_ns += time.perf_counter_ns() - start

    def message(self, box: Receiver, idle: bool) -> Frozen:
        """Returns the next message of a box. A thread of this process puts messages there, so even a host that does not
        poll wakes up now and then. Raises Dismissed if `idle` and the rank need not wait any longer.
        """
        start = time.perf_counter_ns()
        try:
            while True:
                try:
                    return box.get(timeout=GLANCE_SECONDS)
                except queue.Empty:
                    self.check()
                    if idle and self.dismissed.is_set():
                        raise Dismissed from None
        finally:
            self.waited_ns += time.perf_counter_ns() - start

    def answer(self, box: Receiver, timeout_ns: int | None) -> Frozen:
        """Returns the next object of a box, put there by a thread of this process; None if the time-out passes."""
        start = time.perf_counter_ns()
        try:
            while True:
                left = GLANCE_SECONDS
                if timeout_ns is not None:
                    left = min(left, max(0.0, (start + timeout_ns - time.perf_counter_ns()) / 1e9))
                try:
                    return box.get(timeout=left)
                except queue.Empty:
                    self.check()
                    if not left:
                        return None
        finally:
            self.waited_ns += time.perf_counter_ns() - start

    def attempt(self, call: Callable[[], T | None], timeout_ns: int | None) -> T | None:
        """Repeats a call until it returns something, and returns that; None if the time-out passes."""
        start = time.perf_counter_ns()
        try:
            while (found := call()) is None:
                self.check()
                if timeout_ns is not None and time.perf_counter_ns() - start >= timeout_ns:
                    return None
                time.sleep(ATTEMPT_SECONDS)
            return found
        finally:
            self.waited_ns += time.perf_counter_ns() - start

    def work(self, work: Any) -> None:
        """Waits until a torch `Work` on host memory (or a `gloo_calls.Pending`) has ended. Raises its error, or
        Unfinished if the error is a lost peer.
        """
        if self.polls and not getattr(work, "can_be_polled", True):
            work = WatchedWork(work)
            self.event(work.done)
        elif self.polls and self._crowded:
            self._doze(work)
        elif self.polls:
            self.until(work.is_completed)
        start = time.perf_counter_ns()
        try:
            work.wait()
        except RuntimeError as error:
            self.blame(error)
        finally:
            self.waited_ns += time.perf_counter_ns() - start

    def _doze(self, work: Any) -> None:
        """torch raises the same error for a wait that was too short and for a failed work, which raises it again."""
        start = time.perf_counter_ns()
        try:
            while not work.is_completed():
                self.check()
                with contextlib.suppress(RuntimeError):
                    work.wait(GLANCE)
        finally:
            self.waited_ns += time.perf_counter_ns() - start

    def blame(self, error: RuntimeError) -> NoReturn:
        """Raises the error of a call; or Unfinished, if a lost peer or the end of the run caused it."""
        if peer_gone(error) or self.give_up.is_set():
            raise Unfinished from error
        raise error

    def sleep(self, ns: int) -> None:
        """Sleeps: a planted delay of the host, or a sleep of its program."""
        if ns and self.give_up.wait(ns / 1e9):
            raise Unfinished

    def check(self) -> None:
        """Raises Unfinished when the parent has given up the run."""
        if self.give_up.is_set():
            raise Unfinished


class WatchedWork:
    """A work that cannot be polled, with a thread that waits for it. `done`: set when the work has ended."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self.done = threading.Event()
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="transfer", daemon=True).start()

    def is_completed(self) -> bool:
        return self.done.is_set()

    def source(self) -> int:
        """Returns the sender of a receive from any source (`real.gloo_calls`)."""
        return int(self._work.source())

    def wait(self, timeout: timedelta | None = None) -> None:
        """Waits until the work has ended. Raises its error, or RuntimeError if it takes longer."""
        if not self.done.wait(None if timeout is None else timeout.total_seconds()):
            raise RuntimeError("not over yet")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work.wait()
        except BaseException as error:
            self._error = error
        self.done.set()


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peer_gone(error: RuntimeError) -> bool:
    """Whether gloo failed because the process of a peer has ended."""
    return any(text in str(error) for text in _PEER_GONE)
