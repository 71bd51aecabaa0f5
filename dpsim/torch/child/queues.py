"""Queues, conditions, events, semaphores and futures for a rank whose threads dpsim schedules.

The explorer tries both orders of two threads that put into one queue, or that get from it. It also tries both orders of
a release and a non-blocking acquire of a semaphore, because executors use these. For an event it tries both orders only
if a line of the user's program uses the event.

The end of a job of `concurrent.futures` conflicts with the ends of other jobs, and with each look at what has ended.
`result` waits, so it needs no choice.
"""

from __future__ import annotations

import _thread
import concurrent.futures as package
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import _base
from typing import Any

from dpsim.torch.child.clocks import clock
from dpsim.torch.child.locks import Lock, RLock, by_user, numbers
from dpsim.torch.child.threads import Speaker, choose, let, stand

_KEPT = ("concurrent.futures.thread",)
"""Modules that were imported before the patch. `install` replaces their locks as well."""

ENDS = ("set_result", "set_exception")
LOOKS = ("done", "add_done_callback")
LOOPS = ("as_completed", "wait")


class SimpleQueue:
    """Replaces `queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[tuple[Any, int]] = deque()
        self._stand: list[Speaker] = []
        self._name = next(numbers)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is not None or by_user():  # libraries put None to end their threads
            choose(f"puts.{self._name}")
        self._items.append((item, clock().passed))
        if self._stand:
            let(self._stand.pop(0))

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        for side in ("gets",) if block and timeout is None else ("gets", "puts"):
            choose(f"{side}.{self._name}")
        while not self._items:
            if not block or timeout == 0 or not stand(f"queue.{self._name}", self._stand, timeout):
                raise queue.Empty
        item, put = self._items.popleft()
        clock().after(put)
        return item

    def get_nowait(self) -> Any:
        return self.get(False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class Queue(queue.Queue):  # type: ignore[type-arg]
    """Replaces `queue.Queue`."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        self._name = next(numbers)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._choose("puts", block and timeout is None)
        super().put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._choose("gets", block and timeout is None)
        return super().get(block, timeout)

    def empty(self) -> bool:
        self._choose("gets", False)
        return super().empty()

    def _choose(self, side: str, waits: bool) -> None:
        """Tells the explorer to try both orders of this call and others of its kind: puts or gets. If the call does not
        block, the explorer also tries both orders with calls of the other kind.
        """
        for one in (side,) if waits else ("gets", "puts"):
            choose(f"{one}.{self._name}")


class HeldEvent(threading.Event):
    """Replaces `threading.Event`."""

    def __init__(self) -> None:
        super().__init__()
        self._name = f"event.{next(numbers)}"

    def is_set(self) -> bool:
        if by_user():
            choose(self._name)
        clock().after(self._cond._lock.released)  # type: ignore[attr-defined]
        return super().is_set()

    def set(self) -> None:
        if by_user():
            choose(self._name)
        super().set()

    def clear(self) -> None:
        if by_user():
            choose(self._name)
        super().clear()

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(timeout)


class Condition(threading.Condition):
    """Replaces `threading.Condition`. For the user's, the explorer tries each first owner of its lock."""

    def __init__(self, lock: Any = None) -> None:
        super().__init__(lock)
        inner: Any = self._lock  # type: ignore[attr-defined]
        self._name = inner._lock._name if isinstance(inner, RLock) else getattr(inner, "_name", "condition")
        if by_user():
            self._restore, self._acquire_restore = self._acquire_restore, self._again  # type: ignore[has-type]

    def _again(self, saved: Any) -> None:
        choose(self._name)
        self._restore(saved)

    def __enter__(self) -> bool:
        if by_user():
            choose(self._name)
        return super().__enter__()


class _Counts:
    """The part that both semaphores share. A non-blocking acquire conflicts with releases by other threads.

    A subclass names this class before the semaphore of `threading`, so `super()` finds that semaphore. mypy does not
    see it.
    """

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)  # type: ignore[call-arg]
        self._name = f"semaphore.{next(numbers)}"

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        if by_user() or not blocking or timeout == 0:
            choose(self._name)
        return bool(super().acquire(blocking, timeout))  # type: ignore[misc]

    def release(self, n: int = 1) -> None:
        choose(self._name, changes=False)
        super().release(n)  # type: ignore[misc]

    def __enter__(self) -> bool:  # type: ignore[misc,unused-ignore]
        if by_user():
            choose(self._name)
        return bool(super().acquire())  # type: ignore[misc]

    def __exit__(self, *_: Any) -> None:
        self.release()


class Semaphore(_Counts, threading.Semaphore):  # type: ignore[misc]
    """Replaces `threading.Semaphore`."""


class BoundedSemaphore(_Counts, threading.BoundedSemaphore):  # type: ignore[misc]
    """Replaces `threading.BoundedSemaphore`."""


def install() -> None:
    """Replaces Python's locks, conditions, events, semaphores and queues for all later objects of this process."""
    true = type(_thread.allocate_lock())
    for module, names in (
        (threading, {"Lock": Lock, "_allocate_lock": Lock, "RLock": RLock}),
        (threading, {"Condition": Condition}),
        (threading, {"Event": HeldEvent, "Semaphore": Semaphore, "BoundedSemaphore": BoundedSemaphore}),
        (_thread, {"allocate_lock": Lock}),
        (queue, {"SimpleQueue": SimpleQueue, "Queue": Queue}),
    ):
        for name, kind in names.items():
            setattr(module, name, kind)
    _install_futures()
    for kept in [sys.modules[name] for name in _KEPT if name in sys.modules]:
        for key, value in [*vars(kept).items()]:
            if isinstance(value, true):
                setattr(kept, key, Lock())


def _install_futures() -> None:
    for name in (*ENDS, *LOOKS):
        setattr(_base.Future, name, _choosing(getattr(_base.Future, name), name in ENDS))
    for name in LOOPS:
        function = _choosing(getattr(_base, name), False)
        for module in (_base, package):
            setattr(module, name, function)
    _base.Future.__hash__ = _by_number  # type: ignore[method-assign]


def _choosing(original: Callable[..., Any], changes: bool) -> Callable[..., Any]:
    def called(*args: Any, **more: Any) -> Any:
        choose("futures", changes)
        return original(*args, **more)

    return called


def _by_number(self: Any) -> int:
    """Returns a number as hash, so that a set of futures has the same order in each run."""
    return int(vars(self).setdefault("_number", next(numbers)))
