"""Works of gloo that may never end: works of a communicator that this rank aborts, or whose peer has ended. No thread
may block on them.

patience.until(ended(work, lambda: communicator.aborted))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from real.waiting import WatchedWork


class Unending:
    """A work that gloo could not start, or that failed, because the process of a peer has ended. It never ends, as on
    other backends.
    """

    can_be_polled = True

    def __init__(self, error: RuntimeError) -> None:
        self._error = error

    def is_completed(self) -> bool:
        return False

    def wait(self) -> None:
        raise self._error


def ended(work: Any, given_up: Callable[[], bool]) -> Callable[[], bool]:
    """Returns a function to poll: whether a work has ended or the rank has abandoned it."""
    if getattr(work, "can_be_polled", True):
        return lambda: given_up() or bool(work.is_completed())
    watched = WatchedWork(work)
    return lambda: given_up() or watched.done.is_set()
