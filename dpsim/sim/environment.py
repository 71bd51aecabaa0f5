"""SimPy's environment with two changes: what happens now does not go through the heap, and ops need no event.

A queue entry is either a SimPy event or an `Op`, which is handed to `fire`. Entries without delay wait in a deque,
in order; entries with a delay in SimPy's heap. When nothing is left to do now, `idle` is asked first: the untimed
mode fires a chosen op there, the timed one has nothing to say and time moves on.

Overriding `step` also removes a trap of SimPy: an exception that crosses processes is raised as it is, not made anew as
`type(error)(*error.args)`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy
from simpy.core import EmptySchedule


class Environment(simpy.Environment):
    """Integer nanoseconds from 0."""

    def __init__(self, fire: Callable[[Any], None], idle: Callable[[], bool]) -> None:
        super().__init__()
        self._fire = fire
        self._idle = idle
        self._due: deque[Any] = deque()
        self._serial = 0

    def schedule(self, event: Any, priority: int = 1, delay: float = 0) -> None:
        """Let `event` happen after `delay`, or, without one, after what is due already."""
        if delay:
            self._serial = serial = self._serial + 1
            heappush(self._queue, (self._now + delay, priority, serial, event))  # type: ignore[misc]
        else:
            self._due.append(event)

    def step(self) -> None:
        """Do the next thing. Raises EmptySchedule when nothing can happen any more."""
        if self._due:
            event = self._due.popleft()
        elif self._idle():
            return
        elif self._queue:
            self._now, _, _, event = heappop(self._queue)
        else:
            raise EmptySchedule
        if not isinstance(event, simpy.Event):
            self._fire(event)
            return
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(event)
        if not event._ok and not hasattr(event, "_defused"):
            raise event._value

    def run_down(self) -> None:
        """Until nothing can happen any more. SimPy's own `run` does the same, more slowly."""
        step = self.step
        try:
            while True:
                step()
        except EmptySchedule:
            pass
