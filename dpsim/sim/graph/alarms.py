"""Time-outs: when a wait of a rank ends without a result.

A time-out is longer than all ops under way except sleeps and planted delays. In timed mode it is an op with a cost. If
its wait ends earlier, the machine removes that op, so that the run need not last until the time-out.

In untimed mode there is no clock, so a rule decides. **A time-out passes when nothing but sleeps and deaths can happen,
and no sleep under way ends before it**. For this rule, each sleep and time-out has a computed end. The end is its
duration, added to the latest end among the sleeps and time-outs before its call (`dpsim.sim.graph.sleeps`). All other
ops take no time.

So a time-out of 50 ms may pass before ops that follow a sleep of 100 ms, or two sleeps of 30 ms. It need not pass
first, since its host may be slow. Of several time-outs, the one with the earliest end passes first. If ends are equal,
the strategy picks.

A world may also let a limited number of time-outs in a run pass early (`World.early_timeouts`). When a host sets a
time-out, the strategy draws whether this one may. If so, it may pass at any time, whatever its host waits for.

    machine.alarms.set(op, 30_000_000_000, causes, lives)
    machine.alarms.cancel(op, by)

After a time-out passes, its host comes after all ops that ended before. So it has learned of every event that passed,
and each of its calls that could be over is over. Sleeps are the exception: if the time-out could have passed before the
end of a sleep, the two conflict, and a search tries both orders.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from typing import Any, Protocol

from dpsim.contract.events import EARLY, IN_TIME
from dpsim.contract.schedule import TIME, Footprint, Strategy
from dpsim.sim.graph.environment import Environment, Halt
from dpsim.sim.graph.op import Op
from dpsim.sim.graph.sleeps import Sleeps

PASSING: Footprint = ((TIME, "w"),)


class Clockwork(Protocol):
    """The fields and methods of a machine that time-outs use."""

    env: Environment
    timed: bool
    dead: dict[int, bool]
    enabled: list[Op]
    submit: Callable[[Op], None]
    strategy: Strategy | None

    def halt(self, error: BaseException) -> Halt:
        """Ends the run with this error."""

    def mark(self, op: Op) -> int:
        """Returns the bit by which hosts know that they have learned of an op."""


class Alarms:
    """The time-outs of one machine. `most`: how many may pass early in a run. `quiet`: ops that can happen without
    keeping time-outs from passing: sleeps, and time-outs that may pass early.
    """

    def __init__(self, machine: Clockwork) -> None:
        self._machine = machine
        self.awaited: set[int] = set()
        """The time-outs in ns with which ranks and services waited, even for something that was there already."""
        self.most = 0
        self.sleeps = Sleeps()
        self.quiet: set[Op] = set()
        self._waiting: dict[Op, int] = {}  # untimed: each time-out under way, and its end in ns
        self._knew: dict[Op, int] = {}  # untimed: the causes that its host knew at the call
        self._early: set[Op] = set()
        self._offered: set[Op] = set()
        self._past = self._deaths = 0  # causes of all picked ops, and of the deaths among them
        self._events = 0  # marks of the stream events that have passed
        self._passing: list[int] = []  # a mark of each time-out that could pass, one entry each time that it could
        self.passing = 0
        """The length of that list. An op that fires keeps the number (`Op.at`)."""
        self._taken = 0  # causes of the deaths that removed time-outs or sleeps

    def sleep(self, op: Op, ns: int) -> None:
        """Registers a sleep or a planted delay of `ns`. Call it before the op is submitted."""
        if ns and not self._machine.timed:
            self.sleeps.add(op, ns)
            self.quiet.add(op)

    def set(self, op: Op, ns: int, causes: int = 0, lives: Footprint = (), ends: Footprint = ()) -> None:
        """Lets `op` fire as a time-out after `ns`. `causes`: what the host knew at the call. `lives`: the footprint of
        ranks that may be killed. `ends`: the resource on which it conflicts with the op that cancels it.
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

    def missed(self, op: Op, ns: int, causes: int, by: Op, lives: Footprint = (), ends: Footprint = ()) -> None:
        """As `set`, for a wait that ended at once, because of the op `by`: the time-out may have passed before."""
        machine = self._machine
        if machine.timed:
            return
        self._prepare(op, ns, causes, lives)
        self.cancel(op, by)
        if len(self._early) < self.most and machine.strategy is not None:
            op.footprint = (*PASSING, *lives, *ends)  # with another order, it may pass early
            machine.strategy.lost([op])

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
        """The wait of a time-out has ended because of the op `by`: removes the time-out."""
        machine = self._machine
        if not machine.timed:
            up = self._waiting.pop(op, None)
            if op in self._early and op in machine.enabled:
                machine.enabled.remove(op)
            elif op not in self._offered and not (up is not None and by.causes & self.sleeps.late(op.causes, up)):
                return
            if machine.strategy is not None:
                machine.strategy.lost([op])  # the time-out could have passed before the op that ended its wait
            return
        queue: list[Any] = machine.env._queue
        queue[:] = [entry for entry in queue if entry[-1] is not op]
        heapify(queue)

    def due(self) -> list[Op]:
        """Untimed, when only quiet ops and deaths can happen: returns the time-outs that can pass next."""
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
        if asleep and any(started is not None and started[0] < shortest for started in asleep.values()):
            return []
        due = [op for op, up in self._waiting.items() if up == shortest and op not in self._early]
        overtaken = self._offered.difference(due)
        if overtaken and strategy is not None:
            strategy.lost([op for op in self._waiting if op in overtaken])
        for op in due:
            if op not in self._offered:
                if strategy is not None and self.sleeps.late(op.causes, shortest):
                    strategy.lost([op])  # the time-out could have passed before the ends of these sleeps
                op.causes |= self._past | self._taken
                op.seen_marks |= self._events
                self._passing.append(self._machine.mark(op))
                self.passing += 1
        self._offered = set(due)
        return due

    def passed(self, event: Op) -> None:
        """Untimed: a stream event has passed. Time-outs that pass later come after it."""
        self._events |= event.own_mark
        self._past |= event.causes

    def behind(self, op: Op, marks: int) -> bool:
        """Untimed: whether a host with these marks has learned of a time-out that passed after `op` fired."""
        return 0 <= op.at < self.passing and any(mark & marks for mark in self._passing[op.at :])

    def picked(self, op: Op) -> bool:
        """Records that the strategy has picked an op. Returns whether it was a time-out from `due`."""
        known = self._past | self._deaths
        if op.disables:
            self._deaths |= op.causes
        else:
            self._past |= op.causes
        up = self._waiting.pop(op, None)
        if up is not None:
            self.sleeps.passed(op.causes & ~known & ~self._knew[op], up)
            return op not in self._early
        started = self.sleeps.under_way.get(op)
        if started is not None:
            self.sleeps.ended(op, op.causes & ~known & ~started[1])
            self._overslept()
        return False

    def _overslept(self) -> None:
        """A sleep has ended before time-outs that could have passed first: reports these to the strategy as lost."""
        strategy = self._machine.strategy
        late = [op for op in self._waiting if op in self._offered]
        if late and strategy is not None:
            strategy.lost(late)
        self._offered.clear()

    def ahead(self) -> list[Op]:
        """Untimed: returns the time-outs that have not passed."""
        return list(self._waiting)
