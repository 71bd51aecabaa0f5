"""Works of gloo for whose end no thread may wait: those of a communicator that this rank aborts, or whose peer is gone.

patience.until(ended(work, lambda: communicator.aborted))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from real.waiting import WatchedWork


class Unending:
    """What could not be started, or failed, as the process of a peer is gone: it never ends, as on other backends."""

    can_be_polled = True

    def __init__(self, error: RuntimeError) -> None:
        self._error = error

    def is_completed(self) -> bool:
        return False

    def wait(self) -> None:
        raise self._error


def ended(work: Any, given_up: Callable[[], bool]) -> Callable[[], bool]:
    """Whether a work is over or was given up, to be asked again and again."""
    if getattr(work, "can_be_polled", True):
        return lambda: given_up() or bool(work.is_completed())
    watched = WatchedWork(work)
    return lambda: given_up() or watched.done.is_set()
