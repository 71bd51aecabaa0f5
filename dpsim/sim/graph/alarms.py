"""Time-outs: when a wait of a rank ends without a result.

A time-out is longer than all ops under way except sleeps and planted delays. In the timed mode it is an op with a cost.
If its wait ends earlier, the machine removes the op, so that the run does not last until the time-out.

In untimed mode the rule is: **a time-out passes when nothing but sleeps and deaths can happen, and no sleep under way
ends before it**. It begins at the latest end among the sleeps and time-outs before its call. So does a sleep
(`dpsim.sim.graph.sleeps`): all other ops take no time. So a time-out of 50 ms may pass before ops behind a sleep of 100
ms, or behind two of 30 ms. Any number of messages, collectives, stores, ports and flags may lie between. It does not
pass before ops behind a sleep of 10 ms. It need not pass first, as its own host may be slow. The time-out with the
earliest end passes first; if several end at one time, their order is a choice.

A world may also let a limited number of time-outs in a run pass early (`World.early_timeouts`). When a host sets a
time-out, a draw decides whether this one may. If so, it may pass at any time, whatever the host waits for.

    machine.alarms.set(op, 30_000_000_000, causes, lives)
    machine.alarms.cancel(op, by)

When a time-out passes, its host comes after all ops that ended before. So the host knows of every event that passed
before. Sleeps are the exception: if the time-out could have passed before the end of a sleep, the two conflict, and a
search tries both orders.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from typing import Any, Protocol

from dpsim.contract.schedule import TIME, Footprint, Strategy
from dpsim.sim.graph.environment import Environment, Halt
from dpsim.sim.graph.op import Op
from dpsim.sim.graph.sleeps import Sleeps

PASSING: Footprint = ((TIME, "w"),)
IN_TIME, EARLY = "in time", "early"


class Clockwork(Protocol):
    """What time-outs need of a machine."""

    env: Environment
    timed: bool
    dead: dict[int, bool]
    enabled: list[Op]
    submit: Callable[[Op], None]
    strategy: Strategy | None

    def halt(self, error: BaseException) -> Halt:
        """End the run with this error."""


class Alarms:
    """Of one machine. `most`: this number of time-outs may pass early. `quiet`: ops that can happen and do not keep
    time-outs from passing: sleeps, and time-outs that may pass early.
    """

    def __init__(self, machine: Clockwork) -> None:
        self._machine = machine
        self.awaited = False
        """Whether an actor waited with a time-out, also for what was there: whether it was there is no choice."""
        self.most = 0
        self.sleeps = Sleeps()
        self.quiet: set[Op] = set()
        self._waiting: dict[Op, int] = {}  # untimed, and when each is up
        self._knew: dict[Op, int] = {}  # and what its call did
        self._early: set[Op] = set()
        self._offered: set[Op] = set()
        self._past = self._deaths = 0  # causes of all that was picked, and of the deaths
        self._events = 0  # marks of the events that have passed
        self._taken = 0  # and of the deaths that took time-outs away: others change nothing of what is next

    def sleep(self, op: Op, ns: int) -> None:
        """An op takes at least `ns`: a sleep or a planted delay. Call it before the op is submitted."""
        if ns and not self._machine.timed:
            self.sleeps.add(op, ns)
            self.quiet.add(op)

    def set(self, op: Op, ns: int, causes: int = 0, lives: Footprint = (), ends: Footprint = ()) -> None:
        """Let an op happen `ns` from now. `causes`: what the call knows that sets it. `lives`: what it reads beside,
        where its rank may be killed. `ends`: what it touches together with the op that takes it back.
        """
        if self._machine.timed:
            op.cost = max(ns, 1)
            self._machine.submit(op)
            return
        self._prepare(op, ns, causes, lives)
        if len(self._early) < self.most and self._drawn_early(op):
            op.footprint = (*PASSING, *lives, *ends)
            self._early.add(op)
            self.quiet.add(op)
            self._machine.enabled.append(op)

    def missed(self, op: Op, ns: int, causes: int, by: Op, lives: Footprint = ()) -> None:
        """One need not be set: what it would be for is there, because of `by`. It may have passed before."""
        if not self._machine.timed:
            self._prepare(op, ns, causes, lives)
            self.cancel(op, by)

    def _prepare(self, op: Op, ns: int, causes: int, lives: Footprint) -> None:
        up = self.sleeps.clock(causes) + ns
        op.causes |= causes
        op.footprint = lambda: (*PASSING, *lives, *self.sleeps.touched(up))
        self._waiting[op] = up
        self._knew[op] = causes

    def _drawn_early(self, op: Op) -> bool:
        strategy = self._machine.strategy
        try:
            return strategy is not None and strategy.draw(op.label, (IN_TIME, EARLY)) == 1
        except Exception as error:
            raise self._machine.halt(error) from error

    def cancel(self, op: Op, by: Op) -> None:
        """What it was for has happened, because of `by`."""
        machine = self._machine
        if not machine.timed:
            up = self._waiting.pop(op, None)
            if op in self._early and op in machine.enabled:
                machine.enabled.remove(op)
            elif op not in self._offered and not (up is not None and by.causes & self.sleeps.late(op.causes, up)):
                return
            if machine.strategy is not None:
                machine.strategy.lost([op])  # it could have passed before what it was for
            return
        queue: list[Any] = machine.env._queue
        queue[:] = [entry for entry in queue if entry[-1] is not op]
        heapify(queue)

    def due(self) -> list[Op]:
        """There is no time, and nothing but what is quiet can happen: the time-outs that can be the next to pass."""
        gone = [op for op in self._waiting if op.life in self._machine.dead]
        for op in gone:
            del self._waiting[op]
        if gone:
            self._taken |= self._deaths
        ups = [up for op, up in self._waiting.items() if op not in self._early]
        if not ups:
            return []
        shortest, strategy = min(ups), self._machine.strategy
        asleep = self.sleeps.under_way
        dead = [op for op in asleep if op.life in self._machine.dead]
        for op in dead:
            del asleep[op]
            self.quiet.discard(op)
        if dead:
            self._taken |= self._deaths
        if asleep and any(begun is not None and begun[0] < shortest for begun in asleep.values()):
            return []
        due = [op for op, up in self._waiting.items() if up == shortest and op not in self._early]
        overtaken = self._offered.difference(due)
        if overtaken and strategy is not None:
            strategy.lost([op for op in self._waiting if op in overtaken])
        for op in due:
            if op not in self._offered:
                if strategy is not None and self.sleeps.late(op.causes, shortest):
                    strategy.lost([op])  # it could have passed before these sleeps
                op.causes |= self._past | self._taken
                op.seen_marks |= self._events
        self._offered = set(due)
        return due

    def passed(self, event: Op) -> None:
        """Untimed: the point of an event has passed, and what waited optionally before it has ended."""
        self._events |= event.own_mark
        self._past |= event.causes

    def picked(self, op: Op) -> bool:
        """An op was chosen to happen. Whether it is a time-out that was due."""
        known = self._past | self._deaths
        if op.disables:
            self._deaths |= op.causes
        else:
            self._past |= op.causes
        up = self._waiting.pop(op, None)
        if up is not None:
            self.sleeps.passed(op, op.causes & ~known & ~self._knew[op], up)
            return op not in self._early
        begun = self.sleeps.under_way.get(op)
        if begun is not None:
            self.sleeps.ended(op, op.causes & ~known & ~begun[1])
            self._overslept()
        return False

    def _overslept(self) -> None:
        """A sleep has ended first: those that could have passed before come after what it leads to."""
        strategy = self._machine.strategy
        late = [op for op in self._waiting if op in self._offered]
        if late and strategy is not None:
            strategy.lost(late)
        self._offered.clear()

    def ahead(self) -> list[Op]:
        """Untimed: those that have not passed."""
        return list(self._waiting)
