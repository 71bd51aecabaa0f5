"""The contract on the simulated machine: one rank, whose host waits, sends, and may be killed.

Its device is in `dpsim.sim.streams` and `dpsim.sim.buffers`, its communicators in `dpsim.sim.communicators`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from dpsim.backend.journal import Journal
from dpsim.backend.rank import JournaledRank
from dpsim.backend.streams import KernelError
from dpsim.backend.work import Outcome
from dpsim.interface import Frozen, Stream
from dpsim.ops import RawRecord
from dpsim.schedule import Footprint
from dpsim.sim.allocator import CachingAllocator
from dpsim.sim.costs import Costs
from dpsim.sim.machine import Machine
from dpsim.sim.mailbox import Mailboxes
from dpsim.sim.op import Op
from dpsim.sim.streams import SimStream

if TYPE_CHECKING:
    from dpsim.sim.groups import Group


class SimRank(JournaledRank):
    """One rank of the simulation. `records`: its journal."""

    def __init__(
        self,
        journal: Journal,
        records: list[RawRecord],
        machine: Machine,
        costs: Costs,
        boxes: Mailboxes,
        expandable: bool,
    ) -> None:
        super().__init__(journal)
        self.records = records
        self.machine = machine
        self.costs = costs
        self.allocator = CachingAllocator(expandable)
        self.idle = False
        self.killed = False
        self.error: KernelError | None = None
        self.groups: list[Group] = []
        self._waiter = machine.waiter()
        self._at_device: Op | None = None
        self.seen_marks = 0
        self.causes = 0
        """Untimed: what its host knows, as of an op; see `Op`."""
        self.issued: Op | None = None
        """Where the rank may be killed: the last of what it did that others can see, all in a chain."""
        self._unsure: deque[tuple[Op, int]] = deque()
        self.learned: list[tuple[int, int]] = []
        """Untimed: (its step, `causes`), whenever the host has learned something."""
        self.lives: Footprint | None = ((("life", self.rank), "r"),) if self.rank in machine.mortal else None
        self._resumed = 0
        self._boxes = boxes

    def _stream(self, name: str) -> Stream:
        return SimStream(self, name)

    def op(self, label: str, cost: int = 0, effect: Callable[[], Any] | None = None, host: bool = False) -> Op:
        """Something that this rank does, on its device or on its host, after what its host knows and has issued."""
        op = Op(label, cost, effect, self.lives, ~self.rank if host else self.rank)
        if not self.machine.timed:
            self.before(op)
        return op

    def before(self, op: Op) -> None:
        """Untimed: an op comes after what the host knows and has issued."""
        op.causes |= self.causes
        op.seen_marks = op.seen_marks | self.seen_marks if op.seen_marks else self.seen_marks
        if self.issued is not None:
            self.machine.edge(self.issued, op)

    def issue(self) -> None:
        """The host does something that others can see. Where it may be killed, that it comes to do it is an op: it may
        die before. `unsure` says of which record on that is.
        """
        if self.lives is None or self.machine.timed:
            return
        op = self.op(self.address("issues"), host=True)
        self._unsure.append((op, len(self.records) - 1))
        self.issued = op
        self.machine.submit(op)

    def died(self) -> None:
        """The rank was killed: what it had issued beyond that point it never did."""
        self.killed = True
        while self._unsure and self._unsure[0][0].at >= 0:
            self._unsure.popleft()
        if self._unsure:
            del self.records[self._unsure[0][1] :]
        self.machine.kill(~self.rank)
        self.lose_device()

    def address(self, verb: str = "") -> str:
        """The op that the host issued last, as a label; empty where nobody looks at labels."""
        if not self.machine.visible:
            return ""
        return f"rank {self.rank} {verb}{' ' * bool(verb)}{self.journal.site}[{self.journal.ordinal}]"

    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        self.issue()
        delivery = Op(self.address("delivers"), self.costs.message + delay_ns)
        if not self.machine.timed:
            self.before(delivery)
        self._boxes.post(delivery, self.rank, to, mailbox, message)

    def _take(self, mailbox: str, how: str, delay_ns: int) -> Outcome:
        label = self.address()

        def look() -> Generator[Any, Any, Any]:
            op = self.op(label, host=True)
            self._boxes.take(op, self.rank, mailbox, how)
            return self.wait(op)

        def late_or_idle() -> Generator[Any, Any, Any]:
            if delay_ns:
                yield from self.pause(delay_ns, label and f"{label} late")
            self.idle = how == "idle"
            message = yield from look()
            self.idle = False
            return message

        return late_or_idle if delay_ns or how == "idle" else look

    def _sleep(self, ns: int) -> Outcome:
        label = self.address()
        return lambda: self.pause(ns, label)

    def pause(self, ns: int, label: str = "") -> Generator[Any, Any, None]:
        """Let the host stand still."""
        op = self.op(label, ns, host=True)
        self.machine.submit(op)
        return self.wait(op)

    def wait(self, op: Op, result: Any = None) -> Generator[Any, Any, Any]:
        """The value of an op, or `result`, once it has fired. Where the rank may be killed, that its host goes on is an
        op as well.
        """
        machine, waiter = self.machine, self._waiter
        if machine.timed:
            if op.at < 0:
                yield machine.until(op, waiter)
            if self.killed:
                yield machine.waiter()  # which is never due
            return result if result is not None else op.value
        if self.lives is not None:
            after = self.op(f"rank {self.rank} goes on #{self._resumed}", host=True)
            self._resumed += 1
            machine.edge(op, after)
            machine.submit(after)
            if after.at < 0:
                yield machine.until(after, waiter)
            op.causes |= after.causes
        if op.at < 0:
            yield machine.until(op, waiter)
        self.seen_marks |= op.seen_marks
        if op.causes & ~self.causes:
            self.causes |= op.causes
            self.learned.append((self.journal.step, self.causes))
        return op.value if result is None else result

    def wait_for_device(self, op: Op) -> Generator[Any, Any, Any]:
        """The value of an op of the device. Raises the error of a kernel that failed."""
        if self.error is None and op.at < 0:
            self._at_device = op
            yield self.machine.until(op, self._waiter)
            self._at_device = None
        if self.error is not None:
            raise self.error
        return (yield from self.wait(op))

    def fail(self, error: KernelError) -> None:
        """A kernel failed: nothing of what its device has under way happens any more, and its host is told."""
        self.error = error
        self.lose_device()
        op = self._at_device
        if op is not None and op.at < 0 and op.waiters is not None:
            op.waiters.remove(self._waiter)
            self.machine.env.schedule(self._waiter)

    def device_is_done(self) -> bool:
        """Whether nothing is left on its streams."""
        return all(stream.tail is None or stream.tail.at >= 0 for stream in self.streams.values())

    def lose_device(self) -> None:
        """The device stops, and the collectives that it takes part in never end."""
        self.machine.kill(self.rank)
        for group in self.groups:
            group.lose(self.rank)
