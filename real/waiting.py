"""How the host thread of a rank waits, and how it is made to stop waiting.

A wait for a peer that never comes has to end without the peer. Two ways are offered, one a backend:

- *blocking* (gloo): the thread sleeps inside torch and cannot be called back; to give up, the parent kills the process.
- *polling* (NCCL): the thread asks again and again whether the thing is ready, and whether the run has been given up. A
  process that holds a CUDA context is dear to start. So its main thread must never be stuck inside a C call that waits
  for the device.

Both end a hopeless wait with `Unfinished`, which no protocol may catch. So does a gloo operation that failed because
the *process* of a peer is gone. On every other backend this rank would never return, so it ended "blocked" and not
"raised".

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
"""A collective on NVLink takes 20 to 100 us, one of gloo 200: this long it is polled without a pause. A pause of 20 us
takes 75, which is the slack of the kernel's timers.
"""

POLLS = 32
"""The number of polls between two looks at the clock and at whether the run has been given up."""

BRIEF_NS = 20_000_000
"""For this time the pauses between two polls are short. A longer wait is a slow peer or a hang: spare the core."""

GLANCE_SECONDS = 0.05
GLANCE = timedelta(seconds=GLANCE_SECONDS)
"""So often a host that sleeps until it is woken looks whether it should go on waiting."""

ATTEMPT_SECONDS = 0.005
"""Between two attempts to reach a peer that may not be there yet."""

# What gloo says when the other end of a connection is gone. It has no special type for it.
_PEER_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused")


class Unfinished(BaseException):
    """The rank waits for something that will never come. A BaseException: no protocol may catch it."""


class Dismissed(BaseException):
    """The rank stands in an idle get, and no actor is left that could send to it: its program has ended well."""


class Receiver(Protocol):
    """What a thread of this process puts things into."""

    def get(self, *, timeout: float) -> Frozen:
        """The next of them. Raises queue.Empty if there is none within `timeout` seconds."""


class Patience:
    """How one rank waits, and how long it did (`waited_ns`, without injected delays and sleeps)."""

    def __init__(
        self,
        give_up: threading.Event,
        polls: bool,
        dismissed: threading.Event | None = None,
        crowded: bool = False,
    ) -> None:
        """`crowded`: other ranks wait for the cores, so a poll is at their cost."""
        self.give_up = give_up
        self.dismissed = dismissed or threading.Event()
        self.polls = polls
        self._crowded = crowded
        self.waited_ns = 0

    def until(self, ready: Callable[[], bool]) -> None:
        """Poll until `ready()`. Raises Unfinished once the run has been given up."""
        now = time.perf_counter_ns
        begun = now()
        try:
            while now() - begun < SPIN_NS:
                for _ in range(POLLS):
                    if ready():
                        return
                self.check()
            while not ready():
                self.check()
                time.sleep(20e-6 if now() - begun < BRIEF_NS else 500e-6)
        finally:
            self.waited_ns += now() - begun

    def within(self, ready: Callable[[], bool], timeout_ns: int) -> bool:
        """Poll until `ready()`, at most for this time. The answer: whether it is ready."""
        end = time.perf_counter_ns() + timeout_ns
        over = False

        def ready_or_late() -> bool:
            nonlocal over
            over = ready()
            return over or time.perf_counter_ns() >= end

        self.until(ready_or_late)
        return over

    def ask(self, ready: Callable[[], bool]) -> bool:
        """Whether it is ready now. A host that asks in a loop learns here if the run is given up."""
        self.check()
        return ready()

    def event(self, event: threading.Event) -> None:
        """Until a thread of this process sets `event`."""
        begun = time.perf_counter_ns()
        try:
            while not event.wait(GLANCE_SECONDS if self.polls else None):
                self.check()
        finally:
            self.waited_ns += time.perf_counter_ns() - begun

    def message(self, box: Receiver, idle: bool) -> Frozen:
        """The next message of a box. A thread of this process puts them there, so that even a host that does not poll
        is woken now and then. Raises Dismissed when it need not wait any longer, if `idle`.
        """
        begun = time.perf_counter_ns()
        try:
            while True:
                try:
                    return box.get(timeout=GLANCE_SECONDS)
                except queue.Empty:
                    self.check()
                    if idle and self.dismissed.is_set():
                        raise Dismissed from None
        finally:
            self.waited_ns += time.perf_counter_ns() - begun

    def answer(self, box: Receiver, timeout_ns: int | None) -> Frozen:
        """What comes into a box, put there by a thread of this process; None when the time is up."""
        begun = time.perf_counter_ns()
        try:
            while True:
                left = GLANCE_SECONDS
                if timeout_ns is not None:
                    left = min(left, max(0.0, (begun + timeout_ns - time.perf_counter_ns()) / 1e9))
                try:
                    return box.get(timeout=left)
                except queue.Empty:
                    self.check()
                    if not left:
                        return None
        finally:
            self.waited_ns += time.perf_counter_ns() - begun

    def attempt(self, call: Callable[[], T | None], timeout_ns: int | None) -> T | None:
        """What a call gives that is made again and again until it gives something; None when the time is up."""
        begun = time.perf_counter_ns()
        try:
            while (found := call()) is None:
                self.check()
                if timeout_ns is not None and time.perf_counter_ns() - begun >= timeout_ns:
                    return None
                time.sleep(ATTEMPT_SECONDS)
            return found
        finally:
            self.waited_ns += time.perf_counter_ns() - begun

    def work(self, work: Any) -> None:
        """Until a torch `Work` on host memory (or a `gloo_calls.Pending`) is done. Raises its error, or Unfinished if
        the error is a lost peer.
        """
        if self.polls and not getattr(work, "can_be_polled", True):
            work = WatchedWork(work)
            self.event(work.done)
        elif self.polls and self._crowded:
            self._doze(work)
        elif self.polls:
            self.until(work.is_completed)
        begun = time.perf_counter_ns()
        try:
            work.wait()
        except RuntimeError as error:
            self.blame(error)
        finally:
            self.waited_ns += time.perf_counter_ns() - begun

    def _doze(self, work: Any) -> None:
        """Sleep within torch until a work is completed, and be back now and then. torch raises one error for a wait
        that was too short and for a work that failed; the latter raises it again.
        """
        begun = time.perf_counter_ns()
        try:
            while not work.is_completed():
                self.check()
                with contextlib.suppress(RuntimeError):
                    work.wait(GLANCE)
        finally:
            self.waited_ns += time.perf_counter_ns() - begun

    def blame(self, error: RuntimeError) -> NoReturn:
        """Raise the error of a call; or Unfinished, if it came of a lost peer or because the run was given up."""
        if peer_gone(error) or self.give_up.is_set():
            raise Unfinished from error
        raise error

    def sleep(self, ns: int) -> None:
        """An injected delay of the host, or what its program sleeps."""
        if ns and self.give_up.wait(ns / 1e9):
            raise Unfinished

    def check(self) -> None:
        """Raises Unfinished once the run has been given up."""
        if self.give_up.is_set():
            raise Unfinished


class WatchedWork:
    """A work that can only be waited for, with a thread that waits: `done` once it is over."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self.done = threading.Event()
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="transfer", daemon=True).start()

    def is_completed(self) -> bool:
        return self.done.is_set()

    def source(self) -> int:
        """Of a receive from any source (`real.gloo_calls`)."""
        return int(self._work.source())

    def wait(self, timeout: timedelta | None = None) -> None:
        """Until it is over. Raises its error, or RuntimeError if it takes longer."""
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
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peer_gone(error: RuntimeError) -> bool:
    """Whether gloo failed because the process of a peer has ended."""
    return any(text in str(error) for text in _PEER_GONE)
