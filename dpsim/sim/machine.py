"""The machine: a graph of operations with explicit dependencies.

`edge(before, after)` is the only source of order: the op before it on its stream, the arrival of each member at a
collective, what a host waits for. An op is *ready* when everything before it has fired, and then it *fires*: its
effect happens and what waited for it may become ready. A collective is one joint op, not one per member, and has a
predecessor on every member's stream.

    machine = Machine()
    a, b = Op("kernel", cost=5), Op("kernel", cost=7)
    machine.edge(a, b)                  # b starts when a has ended
    machine.submit(b); machine.submit(a)
    machine.run()                       # machine.now == 12

Modes of the machine differ in `ready` alone. This one is timed: a ready op takes a SimPy time-out of its cost and
then fires. When nothing can move any more while somebody still waits, that is a hang: SimPy returns silently, so
`run` leaves the question to its caller, who asks which hosts have not ended.

Prior art: one graph from which clocks, race checks and wait-for graphs are folds, as in happens-before checkers;
SimPy for time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import simpy


class Op:
    """An operation of the graph.

    `pending` counts what has yet to happen before it may start: edges from unfired ops, plus one until it is
    submitted. `at` is the time at which it fired, -1 before. `effect` runs when it fires; its result is `value`.
    `life`: the rank with whose device it dies.
    """

    __slots__ = ("at", "cost", "effect", "kind", "life", "pending", "successors", "value", "waiters")

    def __init__(
        self, kind: str, cost: int = 0, effect: Callable[[], Any] | None = None, life: int | None = None
    ) -> None:
        self.kind = kind
        self.life = life
        self.cost = cost
        self.effect = effect
        self.life = life
        self.pending = 1
        self.successors: list[Op] | None = None
        self.at = -1
        self.value: Any = None
        self.waiters: list[simpy.Event] | None = None


class Machine:
    """Ops, edges and time."""

    def __init__(self) -> None:
        self.env = simpy.Environment()
        self._fired: deque[Op] = deque()
        self._firing = False
        self._dead: dict[int, bool] = {}

    @property
    def now(self) -> int:
        return int(self.env.now)

    def edge(self, before: Op | None, after: Op) -> None:
        """`after` may not start before `before` has fired."""
        if before is not None and before.at < 0:
            after.pending += 1
            if before.successors is None:
                before.successors = [after]
            else:
                before.successors.append(after)

    def submit(self, op: Op) -> None:
        """The op exists now: all edges that its issuer knows of are drawn."""
        op.pending -= 1
        if not op.pending:
            self.ready(op)

    def ready(self, op: Op) -> None:
        """Nothing holds the op back any more: let it take its time, then fire it."""
        if op.cost:
            event = simpy.Event(self.env)
            event._ok = True
            event._value = None
            event.callbacks.append(lambda _: self.fire(op))
            self.env.schedule(event, delay=op.cost)
        else:
            self.fire(op)

    def fire(self, op: Op) -> None:
        """The op happens. What this releases fires from one loop, not by recursion: chains of free ops can be long."""
        fired = self._fired
        fired.append(op)
        if self._firing:
            return
        self._firing = True
        try:
            while fired:
                op = fired.popleft()
                if op.life in self._dead:
                    continue
                op.at = self.now
                if op.effect is not None:
                    op.value = op.effect()
                successors, op.successors = op.successors, None
                for after in successors or ():
                    after.pending -= 1
                    if not after.pending:
                        self.ready(after)
                for waiter in op.waiters or ():
                    waiter.succeed(op.value)
        finally:
            self._firing = False

    def wait(self, op: Op) -> Generator[simpy.Event, Any, Any]:
        """For a host: its value, once it has fired."""
        if op.at >= 0:
            return op.value
        waiter = simpy.Event(self.env)
        if op.waiters is None:
            op.waiters = []
        op.waiters.append(waiter)
        return (yield waiter)

    def kill(self, rank: int) -> None:
        """What the rank had under way on its device does not happen any more."""
        self._dead[rank] = True

    def host(self, program: Coroutine[Any, Any, None]) -> simpy.Process:
        """Start a host thread: SimPy drives a coroutine object as it is."""
        return simpy.Process(self.env, program)  # type: ignore[arg-type]  # needs only send and throw

    def run(self) -> None:
        """Until nothing can move any more."""
        self.env.run()
