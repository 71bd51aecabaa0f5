"""SimPy's environment with two changes for speed: what happens now bypasses the heap, and ops are no SimPy events.

The event loop has two kinds of entries. Hosts that continue now are SimPy events without delay; they wait in a deque,
in order. Ops with a delay wait in SimPy's heap, and the loop passes them to `fire`. When nothing is left to do now, the
loop first calls `idle`. In untimed mode, ops wait in a ready list, and `idle` fires the one that the strategy picks. In
timed mode, `idle` does nothing, and time advances. The loop is `run_down`; do not call SimPy's own `run` and `step`,
since they would miss the deque.

This event loop also avoids a trap of SimPy: it raises an exception that crosses processes as it is. SimPy would create
a new one by `type(error)(*error.args)`.

A host thread is a coroutine that waits for events of the machine. If it awaits anything else, the loop raises
`ForeignAwait` in it, where SimPy's own process would end the run.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, Protocol

import simpy

from dpsim.backend.journal.misuse import ForeignAwait

TICK = 256
OBJECTS = 200_000
"""After this number of new objects Python collects garbage."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Garbage collections would take a twentieth of the time and find nothing: ops leave no reference cycles."""
    usual = gc.get_threshold()
    if usual[0]:
        gc.set_threshold(max(usual[0], OBJECTS), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class RankState(Protocol):
    """The process's state of each rank (`dpsim.sim.hosts.own_state`). `active`: a rank has changed any."""

    active: bool

    def enter(self, rank: int) -> None:
        """A rank goes on."""


class _Unchanged:
    active = False

    def enter(self, rank: int) -> None:
        pass


class Halt(BaseException):
    """Ends a run from within a program. It is a BaseException, so that no protocol catches it as one of its errors."""


class Environment(simpy.Environment):
    """A clock in ns. `due`: events of hosts that continue now. `giving_way`: of threads that let others go first."""

    _now: int  # SimPy declares a float; here it is always an integer

    def __init__(self, fire: Callable[[Any], None], idle: Callable[[], bool] | None) -> None:
        super().__init__()
        self.due: deque[simpy.Event] = deque()
        self.giving_way: set[simpy.Event] = set()
        self.state: RankState = _Unchanged()
        self._fire = fire
        self._idle = idle

    def close(self) -> None:
        """Ends the environment: nothing happens any more."""
        self.giving_way.clear()
        del self._fire, self._idle

    def schedule(self, event: Any, priority: int = 1, delay: float = 0) -> None:
        """Lets `event` happen after `delay` ns. Without a delay, it happens after the events that are due already."""
        if delay:
            heappush(self._queue, (self._now + delay, priority, next(self._eid), event))  # type: ignore[misc]
        else:
            self.due.append(event)

    def waiter(self) -> simpy.Event:
        """Returns an event that a host yields to wait. One such event serves all its waits, one after the other."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        return event

    def later(self, waiter: simpy.Event) -> simpy.Event:
        """Makes the waiter due when the clock advances; if nothing advances it, after all events due now."""
        waiter.callbacks = []
        time = min((entry[0] for entry in self._queue if entry[0] > self._now), default=self._now)
        self.schedule(waiter, 2, time - self._now)
        return waiter

    def run_down(self, tick: Callable[[], int] | None = None) -> None:
        """Runs to the end. Calls `tick` after TICK steps, then after as many as it returned; no program runs then."""
        due, queue, fire, idle, plain = self.due, self._queue, self._fire, self._idle, simpy.Event
        steps = TICK
        while True:
            for _ in range(steps):
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
                steps = tick()


class CoroutineThread:
    """A host thread without greenlet: a coroutine that starts now and runs whenever its event happens."""

    __slots__ = ("_program", "_rank", "_state")

    def __init__(self, env: Environment, program: Coroutine[Any, Any, None], rank: int = 0) -> None:
        self._program, self._rank, self._state = program, rank, env.state
        start = simpy.Event(env)
        start._ok, start._value, start.callbacks = True, None, [self.go_on]
        env.schedule(start)

    def go_on(self, _: simpy.Event) -> None:
        """The event for which the thread waited has happened: runs the thread until its next wait."""
        program = self._program
        if self._state.active:
            self._state.enter(self._rank)
        try:
            event = program.send(None)
            while type(event) is not simpy.Event:
                event = program.throw(ForeignAwait())
        except StopIteration:
            return
        event.callbacks.append(self.go_on)
