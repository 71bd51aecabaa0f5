"""A host thread: what it has learned, what it has issued, and how it waits.

A host runs ahead of its device, so there are two orders. An op that the host *issues* comes after all ops that it has
learned of. It also comes after earlier issued ops that other ranks can see. An op that the host *awaits* becomes known
to it:

    op = host.op("rank 0 read[0]", cost=8_000)      # comes after what the host has learned
    machine.submit(op)
    value = yield from host.wait(op)                # now the host has learned of `op` and of all ops before it

If a rank may be killed, its arrival at a call is a separate op, and so is its return from a wait. The rank may die
before each of them.

A plain call (one without await) may still block the host: if a launch queue is full, or if an allocation synchronizes.
The coroutine cannot stop there, so it continues. But all ops that it issues from then on come after an op called the
*gate*. At its next await, the host waits for the gate. If the gate never fires, the calls behind it did not happen, and
the host removes their records. The gates of docs/words.md are others: they delay a real process.

`dpsim.sim.memory.device` contains what a rank has once, for all its threads. The host receives the error of its device
and learns nothing else from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.backend.journal.journal import Journal
from dpsim.contract import events
from dpsim.contract.interface import Aborted
from dpsim.contract.ops import RawRecord
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import EarlyEnds

SPINS = 1_000
"""A host polls this often in vain at one instant, since polls take no time; then it waits for the next instant."""


class Host:
    """One host thread of a rank. `records`: the rank's journal."""

    turns = False
    """Whether it waits for turns, as one of several threads does."""

    def __init__(self, journal: Journal, records: list[RawRecord], machine: Machine) -> None:
        self.journal = journal
        self.records = records
        self.machine = machine
        self.rank = journal.rank
        self.word = events.host_word(journal.rank, journal.thread)
        life: Footprint = ((("life", self.rank), "r"),)
        self.lives = life if self.rank in machine.mortal else None
        """What all that it does reads, if its rank may be killed; `mortal` is the same for ops that are no turn."""
        self.mortal = self.lives or ()
        self.device_lives = life if self.rank in machine.fragile else None
        """The footprint of its device work, if its device may stop."""
        self._may_fail = self.rank in machine.failing
        self.killed = self.idle = False
        """`idle`: it waits in an idle get, and a run that ends so ends well."""
        self.chained = not machine.timed
        """Whether `before` has an effect. Frequent calls ask this first, for speed."""
        self.gate: Op | None = None
        """The op that ends the plain call which blocks it; None after it has waited for the gate."""
        self._gates = self.part_number = 0
        self._failed: Op | None = None
        self.error: KernelError | None = None
        """The error of its device. The program gets it at its next wait for the device."""
        self.drains = False  # its program has ended: broken device work raises nothing any more
        self.seen_marks = self.causes = 0
        """Untimed: what it has learned, in the same bits as in `Op`."""
        self.learned: list[tuple[int, int]] = []
        """Untimed: (step, `causes`), one entry each time it has learned something."""
        self.issued: Op | None = None
        """The last of its visible ops and gates, a chain. None unless the rank may be killed or a call may block it."""
        self._told: Op | None = None  # the op of its last call, if it was plain and the rank may be killed
        self.line = EarlyEnds(machine, self.rank)
        """Untimed: the line of collectives and transfers that it awaits."""
        self._unsure: deque[tuple[Op, int]] = deque()
        self._resumed = self._failures_seen = 0
        self.waiter = machine.env.waiter()
        self._spun = (0, 0)  # the time of its last poll in vain, and how many there were at that time
        self._at_device: Op | None = None

    # ---- issuing ops

    def op(self, label: str, cost: int = 0, effect: Callable[[], Any] | None = None, host: bool = False) -> Op:
        """Creates an op on the device, or (`host`) on this host, after all that the host has learned or issued."""
        lives, life = (self.lives, ~self.rank) if host else (self.device_lives, self.rank)
        op = Op(label, cost, effect, lives, life)
        if self.chained:
            self.before(op)
        return op

    def before(self, op: Op) -> None:
        """Orders an op after all that the host has learned and issued, and after its gate."""
        op.causes |= self.causes
        op.seen_marks = op.seen_marks | self.seen_marks if op.seen_marks else self.seen_marks
        if self.issued is not None:
            self.machine.edge(self.issued, op)

    def issue(self, label: str | None = None) -> None:
        """Called when the host does something that other ranks can see. If its rank may be killed, the host's arrival
        is an op, as it may die before. `_unsure` lists such ops. `label`: replaces the label of the call.
        """
        if self.lives is None or self.machine.timed:
            return
        op = self.op(self.address(events.ISSUES) if label is None else label, host=True)
        self._unsure.append((op, len(self.records) - 1))
        self.issued = self._told = op
        self.machine.submit(op)

    def address(self, verb: str = "") -> str:
        """Returns the label of the host's last call; empty if no strategy or trace uses labels."""
        own = self.journal
        return events.visit_label(self.word, own.site, own.ordinal, verb) if self.machine.visible else ""

    def label(self, at: tuple[str, int], verb: str) -> str:
        """Returns the label of an op that follows from the call `at` (site, ordinal)."""
        return events.visit_label(self.word, *at, verb) if self.machine.visible else ""

    def stand(self, ends: Sequence[Op], records: int) -> None:
        """The present plain call blocks the host until `ends` have fired. `records`: the journal's length so far."""
        machine = self.machine
        if machine.timed and all(op.at >= 0 for op in ends):
            return
        label = events.numbered_label(events.GETS_THROUGH, self._gates, self.word) if machine.visible else ""
        self._gates += 1
        gate = self.op(label, host=True)
        for end in ends:
            machine.mark(end)  # a host that passes the gate learns of them
        machine.edges(ends, gate)
        self._settle()
        self._unsure.append((gate, records))
        self.chained = True
        self.gate = self.issued = gate
        machine.submit(gate)

    def held_up(self, ns: int) -> None:
        """A planted delay of `ns`: the present plain call blocks the host that long."""
        late = Op(self.address(events.IS_LATE_FOR), ns, life=~self.rank)
        self.before(late)
        self.machine.alarms.sleep(late, ns)
        self.machine.submit(late)
        self.stand((late,), len(self.records))

    # ---- waiting

    def settle(self) -> Generator[Any, Any, None]:
        """A rank that may be killed may die behind its last plain call, too, as messages may be lost with it. A death
        behind an await shows nothing that a death within it does not show.
        """
        last = self._told
        if last is not None and not self.machine.timed and self.rank in self.machine.mortal:
            yield from self.wait(last)

    def get_through(self) -> Generator[Any, Any, None]:
        """Waits for the gate of a plain call. Raises the error of a failed kernel; no call behind it happened."""
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
        """Returns `result`, or the op's value for None. If the rank may be killed, its return is a further op."""
        machine, waiter = self.machine, self.waiter
        if self.gate is not None:
            yield from self.get_through()
        if machine.timed:
            if op.at < 0:
                yield machine.until(op, waiter)
            if self.killed:
                yield machine.env.waiter()  # never due: the rank is dead
            return result if result is not None else op.value
        if self.lives is not None:
            self._told = None
            after = self.op(events.numbered_label(events.GOES_ON, self._resumed, self.word), host=True)
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
        """Timed: returns the value of a poll or query that found nothing, or of a sleep of 0 ns (`spin`)."""
        yield from self.spin()
        return (yield from self.wait(op))

    def spin(self) -> Generator[Any, Any, None]:
        """Timed: polls without end would stop the clock, so after SPINS the host waits for the next instant."""
        machine = self.machine
        times = self._spun[1] + 1 if self._spun[0] == machine.now else 1
        if times >= SPINS:
            yield machine.env.later(self.waiter)
        self._spun = machine.now, times  # `times` stays above SPINS, so at the next instant the host polls once only

    def wait_for_device(self, op: Op) -> Generator[Any, Any, Any]:
        """Returns the value of a device op. Raises the error of a failed kernel, or `Aborted` behind aborted work."""
        if self.gate is not None:
            yield from self.get_through()
        if self._may_fail and self.error is None:
            op = self._after_failure(op)
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
            raise Aborted(f"rank {self.rank} waits for work behind a call on a communicator that it has aborted")
        return (yield from self.wait(op))

    def _after_failure(self, op: Op) -> Op:
        """Returns an op by which the host learns that `op` ended before the device stopped. It has the same value."""
        after = self.op(events.numbered_label(events.HEARS_OF_ITS_DEVICE, self._failures_seen, self.word))
        after.effect = lambda: op.value
        self._failures_seen += 1
        self.machine.edge(op, after)
        self.machine.submit(after)
        return after

    # ---- failures and kills

    def device_failed(self, error: KernelError, by: Op) -> None:
        """The device has failed: the host stops waiting for its device, and continues after the op that failed."""
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
        """A kill has ended the rank: removes the records of calls that the host had not reached."""
        self.killed = True
        self.cut()
        self.journal.killed(self.records[-1] if self.records else None)
        self.machine.kill(~self.rank)

    def cut(self) -> bool:
        """Removes records of calls that were never reached, and returns whether there were any. A rank with several
        threads has none, because each thread waits before it writes a record.
        """
        self._settle()
        if self._unsure:
            del self.records[self._unsure[0][1] :]
        return bool(self._unsure)

    def _settle(self) -> None:
        """Forgets issued ops that have fired: their records are sure."""
        while self._unsure and self._unsure[0][0].at >= 0:
            self._unsure.popleft()
