"""A host thread: what it knows, what it has issued, and how it stands still.

A host runs ahead of its device, so there are two orders. What it *issues* comes after all that it knows of, and after
what it issued before, as far as others can see that. What it *awaits* it knows of from then on:

    op = host.op("rank 0 read[0]", cost=8_000)      # comes after what the host knows
    machine.submit(op)
    value = yield from host.wait(op)                # from here on the host knows what lay before `op`

Where its rank may be killed, the host's arrival at a call is a separate op, and so is its going on after a wait. The
rank may die before each of them.

A plain call may still hold the host up, where a launch queue is finite or an allocation synchronises. The program's
coroutine cannot stand still there and goes on. But all that it issues from then on comes after the call's *gate*, and
at the next await it waits for the gate. Where the gate never opens, what came beyond it did not happen.

`dpsim.sim.memory.device` holds what a rank has once, whatever the number of its threads. A host receives its device's
error and knows nothing else of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import Aborted
from dpsim.contract.ops import RawRecord
from dpsim.contract.schedule import Footprint, host_word, numbered_label, visit_label
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import EarlyEnds

SPINS = 1_000
"""So often a host asks in vain at one instant before time goes on. To ask takes no time in the simulation."""


class Host:
    """One host thread of a rank. `records`: the journal of the rank."""

    turns = False
    """Whether it stands still at its turns, as a thread of several does."""

    def __init__(self, journal: Journal, records: list[RawRecord], machine: Machine) -> None:
        self.journal = journal
        self.records = records
        self.machine = machine
        self.rank = journal.rank
        self.word = host_word(journal.rank, journal.thread)
        life: Footprint = ((("life", self.rank), "r"),)
        self.lives = life if self.rank in machine.mortal else None
        """What the host reads by all that it does, where it may be killed."""
        self.device_lives = life if self.rank in machine.fragile else None
        """What its device reads, where that may stop."""
        self._may_hear = self.rank in machine.failing
        self.killed = False
        self.chained = not machine.timed
        """Whether what it issues comes after something that the machine does not see otherwise: call `before`."""
        self.gate: Op | None = None
        """Of the plain call that holds it up, until it waits for that."""
        self._gates = self.part_number = 0
        self.idle = False
        """It stands in an idle get: standing there when the run ends is a good end."""
        self._failed: Op | None = None
        self.error: KernelError | None = None
        """What its device failed with. The program hears of it when it next waits for the device."""
        self.drains = False  # its program has ended: whatever the device has computed
        self.seen_marks = 0
        self.causes = 0
        """Untimed: what it knows, as of an op; see `Op`."""
        self.learned: list[tuple[int, int]] = []
        """Untimed: (its step, `causes`), whenever it has learned something."""
        self.issued: Op | None = None
        """The last of its visible ops and of the gates that held it up, all in a chain. It is None unless the rank may
        be killed or a call may hold the host up.
        """
        self.line = EarlyEnds(machine, self.rank)
        """Untimed: the parts of collectives and transfers that it awaits."""
        self._unsure: deque[tuple[Op, int]] = deque()
        self._resumed = self._heard = 0
        self.waiter = machine.env.waiter()
        self._spun = (0, 0)  # the time at which it last asked in vain, and how often it did
        self._at_device: Op | None = None

    # ---- what it issues

    def op(self, label: str, cost: int = 0, effect: Callable[[], Any] | None = None, host: bool = False) -> Op:
        """Something that the rank does, on its device or on this host, after what the host knows and has issued."""
        if host:
            op = Op(label, cost, effect, self.lives, ~self.rank)
        else:
            op = Op(label, cost, effect, self.device_lives, self.rank)
        if self.chained:
            self.before(op)
        return op

    def before(self, op: Op) -> None:
        """An op comes after what the host knows and has issued, and after what holds it up."""
        op.causes |= self.causes
        op.seen_marks = op.seen_marks | self.seen_marks if op.seen_marks else self.seen_marks
        if self.issued is not None:
            self.machine.edge(self.issued, op)

    def issue(self, label: str | None = None) -> None:
        """The host does something that others can see. Where it may be killed, its arrival there is an op, as it may
        die before. `_unsure` says which records depend on that op. `label`: of what it does beside the op at its
        address.
        """
        if self.lives is None or self.machine.timed:
            return
        op = self.op(self.address("issues") if label is None else label, host=True)
        self._unsure.append((op, len(self.records) - 1))
        self.issued = op
        self.machine.submit(op)

    def address(self, verb: str = "") -> str:
        """The op that the host issued last, as a label; empty where no strategy or journal uses labels."""
        if not self.machine.visible:
            return ""
        return visit_label(self.word, self.journal.site, self.journal.ordinal, verb)

    def label(self, at: tuple[str, int], verb: str) -> str:
        """What follows from an op that the host issued, with its site and ordinal."""
        return visit_label(self.word, *at, verb) if self.machine.visible else ""

    def stand(self, ends: Sequence[Op], records: int) -> None:
        """The call that the host makes holds it up until these ops have ended. `records`: its records so far."""
        machine = self.machine
        if machine.timed and all(op.at >= 0 for op in ends):
            return
        label = numbered_label("gets through", self._gates, self.word) if machine.visible else ""
        self._gates += 1
        gate = self.op(label, host=True)
        for end in ends:
            machine.mark(end)  # who has come past the gate knows of them
        machine.edges(ends, gate)
        self._settle()
        self._unsure.append((gate, records))
        self.chained = True
        self.gate = self.issued = gate
        machine.submit(gate)

    def held_up(self, ns: int) -> None:
        """A planted delay: the host is late by `ns` for the plain call that it makes, and for all that follow."""
        late = Op(self.address("is late for"), ns, life=~self.rank)
        if self.chained:
            self.before(late)
        self.machine.alarms.sleep(late, ns)
        self.machine.submit(late)
        self.stand((late,), len(self.records))

    # ---- how it stands still

    def settle(self) -> Generator[Any, Any, None]:
        """Stand still until what the host has issued is sure. Where its rank may be killed it may die until then."""
        last = self.issued
        if self.lives is not None and last is not None and last.at < 0:
            yield self.machine.until(last, self.waiter)

    def get_through(self) -> Generator[Any, Any, None]:
        """Stand in the plain call that holds the host up, until it is through. Raises the error of a kernel that
        failed: then it never is, and what came beyond did not happen.
        """
        gate, self.gate = self.gate, None
        if gate is None:
            return
        try:
            yield from self.wait_for_device(gate)
        except KernelError:
            if gate.at < 0:
                self.cut()
                self.issued = None
            raise

    def pause(self, ns: int, label: str = "") -> Generator[Any, Any, None]:
        op, machine = self.op(label, ns, host=True), self.machine
        if not machine.timed:
            machine.alarms.sleep(op, ns)
        machine.submit(op)
        return self.wait(op) if ns or not machine.timed else self.in_vain(op)

    def wait(self, op: Op, result: Any = None) -> Generator[Any, Any, Any]:
        """The value of an op, or `result`, once it has fired. Where the rank may be killed, that its host goes on is an
        op as well.
        """
        machine, waiter = self.machine, self.waiter
        if self.gate is not None:
            yield from self.get_through()
        if machine.timed:
            if op.at < 0:
                yield machine.until(op, waiter)
            if self.killed:
                yield machine.env.waiter()  # which is never due
            return result if result is not None else op.value
        if self.lives is not None:
            after = self.op(numbered_label("goes on", self._resumed, self.word), host=True)
            self._resumed += 1
            machine.edge(op, after)
            machine.submit(after)
            if after.at < 0:
                yield machine.until(after, waiter)
            causes = after.causes
        else:
            if op.at < 0:
                yield machine.until(op, waiter)
            causes = op.causes
        self.seen_marks |= op.seen_marks
        if causes & ~self.causes:
            self.causes |= causes
            self.learned.append((self.journal.step, self.causes))
        return op.value if result is None else result

    def in_vain(self, op: Op) -> Generator[Any, Any, Any]:
        """Timed: the value of a poll or a query that has found nothing, or of a sleep that takes no time."""
        yield from self.spin()
        return (yield from self.wait(op))

    def spin(self) -> Generator[Any, Any, None]:
        """Timed: it has asked in vain. A host that asks again and again would keep time from going on, and with it what
        it asks for.
        """
        machine = self.machine
        times = self._spun[1] + 1 if self._spun[0] == machine.now else 1
        if times >= SPINS:
            yield machine.env.later(self.waiter)
        self._spun = machine.now, times  # one that went on so asks once at the next instant, and not as often again

    def wait_for_device(self, op: Op) -> Generator[Any, Any, Any]:
        """The value of an op of the device. Raises the error of a kernel that failed."""
        if self.gate is not None:
            yield from self.get_through()
        if self._may_hear and self.error is None:
            op = self._hears_of(op)
        if self.error is None and op.at < 0:
            self._at_device = op
            yield self.machine.until(op, self.waiter)
            self._at_device = None
        if self.error is not None:
            if self._failed is not None:
                self.causes |= self._failed.causes
                self.seen_marks |= self._failed.seen_marks
            raise self.error
        if not self.drains and self.machine.is_broken(op, self.rank):
            yield from self.wait(op)
            raise Aborted(f"rank {self.rank} has aborted a communicator, and what it waits for lies behind that")
        return (yield from self.wait(op))

    def _hears_of(self, op: Op) -> Op:
        """The op by which the host learns of an op of its device before the device stops; it has that op's value."""
        after = self.op(numbered_label("hears of its device", self._heard, self.word))
        after.effect = lambda: op.value
        self._heard += 1
        self.machine.edge(op, after)
        self.machine.submit(after)
        return after

    # ---- what befalls it

    def device_failed(self, error: KernelError, by: Op) -> None:
        """What it waits for on the device will not happen any more, so it goes on, and comes after what failed."""
        self.error = error
        self._failed = by
        op = self._at_device
        if op is not None and op.at < 0:
            if op.waiter is self.waiter:
                op.waiter = op.waiters.pop(0) if op.waiters else None
            elif op.waiters is not None:
                op.waiters.remove(self.waiter)
            self.machine.env.schedule(self.waiter)

    def died(self) -> None:
        """The rank was killed: what the host had issued beyond that point it never did."""
        self.killed = True
        self.cut()
        self.journal.killed(self.records[-1] if self.records else None)
        self.machine.kill(~self.rank)

    def cut(self) -> bool:
        """What the host has journaled beyond the point to which it came did not happen. False if there was no such
        point. A host of several threads has none: each stands still before it journals what it does.
        """
        self._settle()
        if self._unsure:
            del self.records[self._unsure[0][1] :]
        return bool(self._unsure)

    def _settle(self) -> None:
        """Forget of what is sure by now."""
        while self._unsure and self._unsure[0][0].at >= 0:
            self._unsure.popleft()
