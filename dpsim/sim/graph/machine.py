"""The machine: a graph of operations with explicit dependencies, which fires in one of two modes.

`edge(before, after)` is the only source of order. Edges come from streams (the previous op), from events that a stream
waits for, from arrivals at a collective, and from waits of hosts. An op is *ready* when all ops before it have fired.
Then it *fires*: its effect happens, and ops behind it may become ready. A stream's wait for an event is an edge and no
op; so is the record of an event, in timed mode.

    machine = Machine()
    a, b = Op("a", cost=5), Op("b", cost=7)
    machine.edge(a, b)                  # b starts when a has ended
    machine.submit(b); machine.submit(a)
    machine.run()                       # machine.now == 12

The modes differ only in when a ready op fires:

* **timed**: after its cost on SimPy's clock;
* **untimed**: there is no clock. An op without footprint fires at once. An op with a footprint joins the list
  `enabled`, and when nothing else can happen, a strategy (`dpsim.contract.schedule`) picks one from the list. Every
  timing of the machine is some order of these picks. So a property that holds for all picks holds for all timings.

A footprint lists the resources that an op touches beside its edges, as (resource, mode). The life of a rank that may be
killed is also a resource: the kill writes it, and all that the rank does reads it. The strategy is the only source of
nondeterminism. Labels of ops are addresses in the program, so unrelated changes do not alter them. In a run without a
strategy, ops have no labels.

Prior art: happens-before graphs of race detectors, Mc SimGrid's and Shuttle's schedulers, SimPy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from heapq import heappush
from typing import Any

import simpy

from dpsim.backend.graphs.kernel_call import refuse_result
from dpsim.contract.gates import Address
from dpsim.contract.schedule import OptionalWait, Strategy
from dpsim.contract.world import Kill
from dpsim.sim.graph.alarms import Alarms
from dpsim.sim.graph.edges import Edges
from dpsim.sim.graph.environment import CoroutineThread, Environment, Halt
from dpsim.sim.graph.op import Op, deaths_alone, in_the_end

LOOK_STEPS = 100
"""After this number of steps of an untimed run, its watch checks whether they brought anything new."""


class Machine(Edges):
    """Ops and edges, fired by time or by choice; `Lives` records which ranks may die. `memory`: footprints include
    accesses to device memory. `submit(op)` declares that all edges known to the issuer are in place; the op may fire
    from then on.
    """

    def __init__(
        self,
        strategy: Strategy | None = None,
        kills: Sequence[Kill] = (),
        keep_order: bool = False,
        memory: bool = True,
        dying: Collection[int] = (),
        aborting: bool = False,
    ) -> None:
        super().__init__(kills, dying, () if strategy is None else strategy.failing(), aborting)
        self.order: list[str] = []  # labels of ops with a footprint, in firing order
        self.enabled: list[Op] = []
        self.early: list[Address] = []  # host calls that ended before their peers arrived
        self.touched: dict[tuple[str, str, int], None] = {}  # besides the contract: kind, line and rank
        self.visible = strategy is not None or keep_order
        self.memory = self.visible and memory
        self.timed = strategy is None
        self.halted: BaseException | None = None
        self.order_of_sums = False
        """Whether the value of a floating-point sum depends on the order of its terms."""
        self._steps, self._look_at = 0, LOOK_STEPS
        self.still: Callable[[int], None] = lambda _: None
        """Untimed: called every LOOK_STEPS steps with their number; an exception from it ends the run."""
        self._last = False  # only deaths can happen, and the strategy has drawn which
        self.alarms = Alarms(self)
        self.strategy = strategy
        self._fired: deque[Op] = deque()
        self._firing = self.guarded = False  # guarded: whether ops may have guards
        self.submit: Callable[[Op], None] = self._submit_timed if self.timed else self._submit_untimed
        self.fire: Callable[[Op], None] = self._fire_timed if self.timed else self._fire_untimed
        self.env = Environment(self.fire, None if self.timed else self._pick)

    @property
    def now(self) -> int:
        return self.env._now

    def _submit_timed(self, op: Op) -> None:
        op.pending -= 1
        if op.pending:
            return
        if op.cost:
            env = self.env
            heappush(env._queue, (env._now + op.cost, 1, next(env._eid), op))  # type: ignore[misc]
        else:
            self._fire_timed(op)

    def _submit_untimed(self, op: Op) -> None:
        op.pending -= 1
        if op.pending:
            return
        if op.footprint is None:
            self._fire_untimed(op)
        else:
            self.enabled.append(op)

    def _pick(self) -> bool:
        strategy, dead = self.strategy, self.dead
        if strategy is None:
            return False
        if dead:
            # A failure or an abort may fire before the ops that it removes are enabled, so report these as lost here.
            if self.failing or self.aborting:
                strategy.lost([op for op in self.enabled if op.life in dead])
            self.enabled = [op for op in self.enabled if op.life not in dead]
        enabled = [op for op in self.enabled if op.guard is None or op.guard.open()] if self.guarded else self.enabled
        if len(enabled) < len(self.enabled):
            strategy.blocked([op for op in self.enabled if op not in enabled])
        alarms = self.alarms
        if alarms.sleeps.unread:
            alarms.sleeps.read()
        quiet = alarms.quiet
        if all(op.disables or op in quiet for op in enabled) and (due := alarms.due()):
            return self._pick_of(strategy, [*due, *enabled])
        if self.fragile and enabled and not self._last and all(op.disables for op in enabled) and deaths_alone(enabled):
            self._last = True
            enabled = in_the_end(enabled, strategy)
            self.enabled = [op for op in self.enabled if op in enabled or op.guard is not None]
        return self._pick_of(strategy, enabled) if enabled else False

    def _pick_of(self, strategy: Strategy, enabled: list[Op]) -> bool:
        self._steps += 1
        if self._steps == self._look_at:
            self._look_at += LOOK_STEPS
            self.still(self._steps)
        op = enabled[strategy.pick(enabled)]
        if not self.alarms.picked(op):
            self.enabled.remove(op)
        self.fire(op)
        return True

    # Ops that become ready fire from one loop, not by recursion, since chains can be long. There are two such
    # loops, since the bookkeeping for a search would cost a timed run a fifth of its time.

    def _fire_timed(self, op: Op) -> None:
        fired = self._fired
        if self._firing:
            fired.append(op)
            return
        self._firing = True
        env, dead = self.env, self.dead
        now = env._now
        try:
            while True:
                if not (dead and op.life in dead):
                    op.at = now
                    if op.footprint is not None:
                        self.order.append(op.label)
                    effect = op.effect
                    if effect is not None:
                        args, op.effect, op.args = op.args, None, ()  # they may refer to the op: leave no cycle
                        try:
                            value = effect(*args)
                            if value is not None and op.device is not None:
                                refuse_result(value)
                            op.value = value
                        except BaseException as error:
                            op.failed(effect, error)
                    first = op.after
                    if first is not None:
                        more, op.after, op.more = op.more, None, None
                        for after in (first,) if more is None else (first, *more):
                            after.pending -= 1
                            if not after.pending:
                                if after.cost:
                                    heappush(env._queue, (now + after.cost, 1, next(env._eid), after))  # type: ignore[misc]
                                else:
                                    fired.append(after)
                    if op.waiter is not None:
                        env.due.append(op.waiter)
                        if op.waiters is not None:
                            env.due += op.waiters
                if not fired:
                    return
                op = fired.popleft()
        finally:
            self._firing = False

    def _fire_untimed(self, op: Op) -> None:
        fired = self._fired
        fired.append(op)
        if self._firing:
            return
        self._firing = True
        enabled, dead, now = self.enabled, self.dead, self.alarms.passing
        try:
            while fired:
                op = fired.popleft()
                if dead and op.life in dead:
                    continue
                op.at = now
                if op.footprint is not None:
                    self.order.append(op.label)
                effect = op.effect
                if effect is not None:
                    args, op.effect, op.args = op.args, None, ()
                    try:
                        value = effect(*args)
                        if value is not None and op.device is not None:
                            refuse_result(value)
                        op.value = value
                    except BaseException as error:
                        op.failed(effect, error)
                first = op.after
                if first is not None:
                    more, op.after, op.more = op.more, None, None
                    seen, causes = op.seen_marks, op.causes
                    for after in (first,) if more is None else (first, *more):
                        after.seen_marks = after.seen_marks | seen if after.seen_marks else seen
                        after.causes |= causes
                        after.pending -= 1
                        if not after.pending:
                            (fired if after.footprint is None else enabled).append(after)
                if op.waiter is not None:
                    self.env.due.append(op.waiter)
                    if op.waiters is not None:
                        self.env.due += op.waiters
        finally:
            self._firing = False

    def inherit(self, before: Op, after: Op) -> None:
        """For machines with aborts: `chain.py` has added an edge without `edge`, so brokenness passes on here."""

    def is_broken(self, op: Op, rank: int) -> bool:
        """Whether an op comes after device work of that rank that an abort ended (`dpsim.sim.collectives.broken`)."""
        return False

    def until(self, op: Op, waiter: simpy.Event) -> simpy.Event:
        """Returns the waiter, which becomes due when the op fires."""
        waiter.callbacks = []
        if op.waiter is None:
            op.waiter = waiter
        elif op.waiters is None:
            op.waiters = [waiter]
        else:
            op.waiters.append(waiter)
        return waiter

    def waits(self, wait: OptionalWait) -> bool:
        """Untimed: asks the strategy. Its exception ends the run, and reaches no program."""
        if self.strategy is None:
            return False
        try:
            return self.strategy.waits(wait)
        except Exception as error:
            raise self.halt(error) from error

    def halt(self, error: BaseException) -> Halt:
        """Nothing happens any more, and `run` raises this error. Returns the exception to raise within a program."""
        self.halted = self.halted or error
        self.enabled.clear()
        self._fired.clear()
        self.env.due.clear()
        self.env._queue.clear()
        return Halt()

    def host(self, program: Coroutine[Any, Any, None], rank: int = 0) -> None:
        """Starts a host thread of a rank."""
        CoroutineThread(self.env, program, rank)

    def run(self, tick: Callable[[], int] | None = None) -> None:
        """Runs to the end, with `tick` now and then (`Environment.run_down`). Raises the error of `halt`."""
        with suppress(Halt):
            self.env.run_down(tick)
        if self.halted is not None:
            raise self.halted
