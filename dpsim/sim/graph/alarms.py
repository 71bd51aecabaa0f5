"""Time-outs: what happens when nobody did what was waited for.

A time-out is longer than all that goes on by itself. Where there is time it is an op with a cost, taken back when it is
not needed, so that the run does not last until then. Where there is none it happens when nothing else can but deaths,
the shortest first, and which of several as short is a choice: a run in which a time-out strikes while what it waits for
is under way is one with a time-out that is too short, and no order to explore. All else takes no time, so that of one
which is set when another has passed begins there: who asks every second does not keep those from coming to their end
who wait ten.

    machine.alarms.set(op, 30_000_000_000)
    machine.alarms.cancel(op)

What happens at a time-out comes after all that had happened when it was the next to pass. So a host at which one
passes knows of every event that had passed by then.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from typing import Any, Protocol

from dpsim.contract.schedule import Footprint, Strategy
from dpsim.sim.graph.environment import Environment
from dpsim.sim.graph.op import Op

PASSING: Footprint = ((("time",), "w"),)


class Clockwork(Protocol):
    """What time-outs need of a machine."""

    env: Environment
    timed: bool
    dead: dict[int, bool]
    submit: Callable[[Op], None]
    strategy: Strategy | None


class Alarms:
    """Of one machine."""

    def __init__(self, machine: Clockwork) -> None:
        self._machine = machine
        self.awaited = False
        """Whether anybody waited with a time-out, also for what was there: whether it was there is no choice."""
        self._waiting: dict[Op, int] = {}  # untimed, and when each is up: all time that passes is that of time-outs
        self._now = 0
        self._offered: set[Op] = set()
        self._past = self._deaths = 0  # causes of all that was picked, and of the deaths
        self._events = 0  # marks of the events that have passed
        self._taken = 0  # and of the deaths that took time-outs away: others change nothing of what is next

    def set(self, op: Op, ns: int, lives: Footprint = ()) -> None:
        """Let an op happen `ns` from now; `lives`: what it reads beside, where its rank may be killed."""
        if self._machine.timed:
            op.cost = max(ns, 1)
            self._machine.submit(op)
        else:
            op.footprint = (*PASSING, *lives)
            self._waiting[op] = self._now + ns

    def cancel(self, op: Op) -> None:
        """What it was for has happened."""
        if not self._machine.timed:
            self._waiting.pop(op, None)
            if op in self._offered and self._machine.strategy is not None:
                self._machine.strategy.lost([op])  # it could have passed before what it was for
            return
        queue: list[Any] = self._machine.env._queue
        queue[:] = [entry for entry in queue if entry[-1] is not op]
        heapify(queue)

    def due(self) -> list[Op]:
        """There is no time, and nothing else can happen: the time-outs that can be the next to pass."""
        gone = [op for op in self._waiting if op.life in self._machine.dead]
        for op in gone:
            del self._waiting[op]
        if gone:
            self._taken |= self._deaths
        if not self._waiting:
            return []
        shortest = min(self._waiting.values())
        due = [op for op, ns in self._waiting.items() if ns == shortest]
        overtaken = self._offered.difference(due)
        if overtaken and self._machine.strategy is not None:
            self._machine.strategy.lost([op for op in self._waiting if op in overtaken])
        for op in due:
            if op not in self._offered:
                op.causes |= self._past | self._taken
                op.seen_marks |= self._events
        self._offered = set(due)
        return due

    def passed(self, event: Op) -> None:
        """Untimed: the point of an event has passed, and what waited optionally before it has ended."""
        self._events |= event.own_mark
        self._past |= event.causes

    def picked(self, op: Op) -> bool:
        """An op was chosen to happen. Whether it is a time-out."""
        if op.disables:
            self._deaths |= op.causes
        else:
            self._past |= op.causes
        up = self._waiting.pop(op, None)
        self._now = self._now if up is None else up
        return up is not None

    def ahead(self) -> list[Op]:
        """Untimed: those that have not passed."""
        return list(self._waiting)
