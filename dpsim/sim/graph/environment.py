"""SimPy's environment with two changes: what happens now does not go through the heap, and ops need no event.

SimPy events without delay wait in a deque, in order: hosts that go on. Ops with a delay wait in SimPy's heap and are
handed to `fire`. When nothing is left to do now, the environment first calls `idle`. In untimed mode `idle` fires a
chosen op; in timed mode it does nothing, and time moves on. `run_down` is the only loop: SimPy's own `run` and `step`
would miss the deque.

This loop also removes a trap of SimPy: it raises an exception that crosses processes as it is, not made anew as
`type(error)(*error.args)`.

A host thread is a coroutine that stands still at events of the machine. One that awaits anything else gets
`ForeignAwait`, where SimPy's own process would end the run.

A run makes mostly journals, which stay, and ops, which leave no cycles behind. A garbage collection as often as usual
finds nothing, and takes a twentieth of the time.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

import simpy

from dpsim.backend.journal.misuse import ForeignAwait

TICK = 256
OBJECTS = 200_000
"""The number of new objects after which the garbage collector looks through them."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Garbage is collected less often than usual."""
    usual = gc.get_threshold()
    if usual[0]:
        gc.set_threshold(max(usual[0], OBJECTS), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Halt(BaseException):
    """Ends a run while a program is under way. A BaseException: no protocol may take it for one of its errors."""


class Environment(simpy.Environment):
    """Integer nanoseconds from 0. `due`: hosts that go on now; `giving_way`: those that let all others go first."""

    _now: int  # integers go in, integers come out

    def __init__(self, fire: Callable[[Any], None], idle: Callable[[], bool] | None) -> None:
        super().__init__()
        self.due: deque[simpy.Event] = deque()
        self.giving_way: set[simpy.Event] = set()
        self._fire = fire
        self._idle = idle

    def close(self) -> None:
        """Nothing happens any more."""
        self.giving_way.clear()
        del self._fire, self._idle

    def schedule(self, event: Any, priority: int = 1, delay: float = 0) -> None:
        """Let `event` happen after `delay`, or, without one, after what is due already."""
        if delay:
            heappush(self._queue, (self._now + delay, priority, next(self._eid), event))  # type: ignore[misc]
        else:
            self.due.append(event)

    def waiter(self) -> simpy.Event:
        """What a host yields to stand still; it goes on when it is due. For one wait after the other."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        return event

    def later(self, waiter: simpy.Event) -> simpy.Event:
        """The waiter, which is due when the time is another one; where nothing takes time, after all that is due."""
        waiter.callbacks = []
        time = min((entry[0] for entry in self._queue if entry[0] > self._now), default=self._now)
        self.schedule(waiter, 2, time - self._now)
        return waiter

    def run_down(self, tick: Callable[[], None] | None = None) -> None:
        """Until nothing can happen any more. `tick` is called every TICK things that happen."""
        due, queue, fire, idle, plain = self.due, self._queue, self._fire, self._idle, simpy.Event
        while True:
            for _ in range(TICK):
                if due:
                    event: Any = due.popleft()
                elif idle is not None and idle():
                    continue
                elif queue:
                    self._now, _, _, event = heappop(queue)  # type: ignore[assignment]
                    if not isinstance(event, plain):
                        fire(event)
                        continue
                else:
                    return
                callbacks, event.callbacks = event.callbacks, None
                for callback in callbacks:
                    callback(event)
                if not event._ok and not hasattr(event, "_defused"):
                    raise event._value
            if tick is not None:
                tick()


class CoroutineThread:
    """A host thread, from now on."""

    __slots__ = ("_program",)

    def __init__(self, env: Environment, program: Coroutine[Any, Any, None]) -> None:
        self._program = program
        start = simpy.Event(env)
        start._ok, start._value, start.callbacks = True, None, [self.go_on]
        env.schedule(start)

    def go_on(self, _: simpy.Event) -> None:
        """What it stood at has happened."""
        program = self._program
        try:
            event = program.send(None)
            while type(event) is not simpy.Event:
                event = program.throw(ForeignAwait())
        except StopIteration:
            return
        event.callbacks.append(self.go_on)
