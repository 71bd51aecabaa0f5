"""The contract on the simulated machine: one rank, its streams, events and memory.

A stream is a chain of ops: its tail is what the next one waits for. Events are points in such chains, and waiting
for one is an edge to the stream's next op. Memory comes from a caching allocator and is real: buffers are views
into segments, so memory that is reused too early gives wrong numbers, as on a device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dpsim.interface import Buffer, Frozen, HostArray, Kernel, Stream
from dpsim.journal import Journal
from dpsim.journaled import (
    JournaledBuffer,
    JournaledEvent,
    JournaledRank,
    JournaledStream,
    KernelError,
    Outcome,
    of_this_backend,
)
from dpsim.ops import DTYPES, DType, RawRecord
from dpsim.schedule import Footprint
from dpsim.sim.allocator import ROUND, SMALL, Block, CachingAllocator
from dpsim.sim.costs import Costs
from dpsim.sim.machine import Machine, Op
from dpsim.sim.mailbox import Mailboxes

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
        self.known = 0
        self.past = 0
        """Untimed: what its host knows, as of an op; see `Op`."""
        self.issued: Op | None = None
        """Where the rank may be killed: the last of what it did that others can see, all in a chain."""
        self._unsure: deque[tuple[Op, int]] = deque()
        self.learned: list[tuple[int, int]] = []
        """Untimed: (its step, `past`), whenever the host has learned something."""
        self.lives: Footprint | None = ((("life", self.rank), "r"),) if self.rank in machine.mortal else None
        self._resumed = 0
        self._boxes = boxes

    def _stream(self, name: str) -> Stream:
        return SimStream(self, name)

    def op(self, label: str, cost: int = 0, effect: Callable[[], Any] | None = None) -> Op:
        """Something that this rank does, after what its host knows and has issued."""
        op = Op(label, cost, effect, self.lives, self.rank)
        if not self.machine.timed:
            self.before(op)
        return op

    def before(self, op: Op) -> None:
        """Untimed: an op comes after what the host knows and has issued."""
        op.past, op.known = op.past | self.past, op.known | self.known
        if self.issued is not None:
            self.machine.edge(self.issued, op)

    def issue(self) -> None:
        """The host does something that others can see. Where it may be killed, that it comes to do it is an op: it may
        die before. `unsure` says of which record on that is.
        """
        if self.lives is None or self.machine.timed:
            return
        op = self.op(self.address("issues"))
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
            op = self.op(label)
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
        op = self.op(label, ns)
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
            after = self.op(f"rank {self.rank} goes on #{self._resumed}")
            self._resumed += 1
            machine.edge(op, after)
            machine.submit(after)
            if after.at < 0:
                yield machine.until(after, waiter)
            op.past |= after.past
        if op.at < 0:
            yield machine.until(op, waiter)
        self.known |= op.known
        if op.past & ~self.past:
            self.past |= op.past
            self.learned.append((self.journal.step, self.past))
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


ARRAY = attrgetter("array")


class Launch(Op):
    """A kernel of a rank; one that raises stops the device."""

    __slots__ = ("rank",)

    rank: SimRank

    def failed(self, effect: Callable[..., Any], error: Exception) -> None:
        failed = KernelError.of(self.label, effect, error)
        failed.__cause__ = error
        self.rank.fail(failed)


class SimStream(JournaledStream):
    """A chain of ops."""

    def __init__(self, rank: SimRank, name: str) -> None:
        super().__init__(rank.journal, name)
        self.rank = rank
        self.machine = rank.machine
        self.tail: Op | None = None
        self._waits: list[Op] = []
        self._points = 0

    def append(self, op: Op) -> None:
        """Put an op at the end."""
        machine = self.machine
        if self._waits:
            machine.edges(self._waits, op)
            self._waits = []
        before, self.tail = self.tail, op
        if not machine.timed:
            machine.mark(op)
        machine.follow(before, op)

    def end(self) -> Op | None:
        """The op after which all that the stream has so far is done; None if there is nothing."""
        if self._waits:
            self._points += 1
            label = f"rank {self.rank.rank} {self.name} joins #{self._points}" if self.machine.visible else ""
            self.append(self.rank.op(label))
        return self.tail

    def heads(self) -> Sequence[Op]:
        """What the next op comes after, for one that is not put at the end by `append`."""
        if not self._waits or not self.machine.timed:
            end = self.end()
            return () if end is None else (end,)
        waits, self._waits = self._waits, []
        if self.tail is not None:
            waits.append(self.tail)
        return waits

    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        return SimBuffer(self, shape, dtype)

    def _launch(
        self,
        address: str,
        kernel: Kernel,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        args: tuple[Frozen, ...],
        cost: int | None,
    ) -> None:
        rank, machine = self.rank, self.machine
        try:
            arrays = (*map(ARRAY, reads), *map(ARRAY, writes), *args)
        except AttributeError:
            arrays = (*map(array_of, reads), *map(array_of, writes), *args)  # which says what is wrong
        op = Launch(address, rank.costs.kernel if cost is None else cost, kernel, rank.lives, rank.rank, arrays)
        op.rank = rank
        if not machine.timed:
            rank.before(op)
        if machine.memory:
            op.footprint = (*op.touches(), *touched(reads, writes)) or None
        self.append(op)

    def _record(self, number: int) -> JournaledEvent:
        return SimEvent(self.rank, number, self.end() if self._waits else self.tail)

    def _wait(self, event: JournaledEvent) -> None:
        op = event.op if type(event) is SimEvent else of_this_backend(event, SimEvent).op
        if op is not None and op.at < 0:
            self._waits.append(op)
        elif op is not None and not self.machine.timed:
            self._waits.append(op)  # what it knows goes along the edge

    def _spin(self, ns: int) -> None:
        self.append(self.rank.op(self.rank.address("is late for"), ns))


class SimEvent(JournaledEvent):
    """A point in a chain of ops; `op` None: before all of them."""

    def __init__(self, rank: SimRank, number: int, op: Op | None) -> None:
        self.journal = rank.journal
        self.number = number
        self.rank = rank
        self.op = op
        self._seen: Op | None = None

    def _query(self) -> Outcome:
        """Untimed, the device may be slower than it looks: that the point is seen to have passed is an op of its own,
        made when somebody asks, and conflicts with the asking. What the host knows to have passed has.
        """
        rank, point, machine = self.rank, self.op, self.rank.machine
        op = rank.op(rank.address(), 0, self._passed)

        def outcome() -> Generator[Any, Any, bool]:
            if not machine.timed and not self._known():
                event = ("event", rank.rank, self.number)
                if self._seen is None:
                    self._seen = rank.op(f"rank {rank.rank} event {self.number} passes")
                    self._seen.footprint = (*self._seen.touches(), (event, "w"))
                    machine.edge(point, self._seen)
                    machine.submit(self._seen)
                op.footprint = (*op.touches(), (event, "r"))
            machine.submit(op)
            yes: bool = yield from rank.wait(op)
            if yes and point is not None:
                rank.known |= point.known
                rank.past |= point.past
            return yes

        return outcome

    def _known(self) -> bool:
        return self.op is None or bool(self.rank.known & self.rank.machine.marks[self.op])

    def _passed(self) -> bool:
        if self.rank.machine.timed:
            return self.op is None or self.op.at >= 0
        return self._known() or (self._seen is not None and self._seen.at >= 0)

    def _synchronize(self) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            if self.op is not None:
                yield from self.rank.wait_for_device(self.op)

        return outcome


class SimBuffer(JournaledBuffer):
    """A piece of a segment of the rank's allocator."""

    def __init__(self, stream: SimStream, shape: tuple[int, ...], dtype: DType, whole: SimBuffer | None = None) -> None:
        super().__init__(stream, shape, dtype)
        self.on = stream
        if whole is None:
            allocator = stream.rank.allocator
            self.block: Block = allocator.alloc(stream.name, max(self.count * DTYPES[dtype], 1))
            self.place = self.block.place
            self.array: HostArray = allocator.array(self.block, dtype, shape)
            self.flat = self.array if len(shape) == 1 else self.array.reshape(-1)
        else:
            self.block, self.place = whole.block, whole.place
        self._users: list[SimStream] = []

    def _view(self, start: int, stop: int) -> JournaledBuffer:
        piece = SimBuffer(self.on, (stop - start, *self.shape[1:]), self.dtype, self)
        piece.array = self.array[start:stop]
        piece.flat = piece.array.reshape(-1)
        return piece

    def _copy(self, stream: Stream) -> Outcome:
        on = of_this_backend(stream, SimStream)
        rank = on.rank
        op = rank.op(rank.address(), rank.costs.read, self.array.copy)
        if rank.machine.memory:
            op.footprint = (*op.touches(), *touched([self], []))
        on.append(op)
        return lambda: rank.wait_for_device(op)

    def _hold(self, stream: Stream) -> None:
        user = of_this_backend(stream, SimStream)
        if user not in self._users:
            self._users.append(user)

    def _release(self) -> None:
        rank = self.on.rank
        marks = [_mark(rank, point) for user in self._users if (point := user.end()) is not None]
        rank.allocator.free(self.block, marks)


def _mark(rank: SimRank, point: Op) -> Any:
    """Whether a stream has come past a point, as far as the host knows. Untimed, the host knows only what it was
    told.
    """
    if rank.machine.timed:
        return lambda: point.at >= 0
    bit = rank.machine.marks[point]
    return lambda: bool(rank.known & bit)


def array_of(buffer: Buffer) -> HostArray:
    array: HostArray = of_this_backend(buffer, SimBuffer).array
    return array


def flat_of(buffer: Buffer) -> HostArray:
    """Its memory in one dimension."""
    flat: HostArray = buffer.flat if type(buffer) is SimBuffer else of_this_backend(buffer, SimBuffer).flat
    return flat


def touched(reads: Sequence[Buffer], writes: Sequence[Buffer]) -> Footprint:
    """Device memory as resources: pieces of segments, so coarse that neighbours may seem to share one and so fine that
    whatever does share memory is seen to.
    """
    return tuple([(piece, mode) for buffers, mode in ((reads, "r"), (writes, "w")) for piece in _pieces(buffers)])


def _pieces(buffers: Sequence[Buffer]) -> list[Any]:
    pieces = []
    for buffer in buffers:
        own: SimBuffer = of_this_backend(buffer, SimBuffer)
        assert own.place is not None
        size, (segment, start, _) = DTYPES[own.dtype], own.place
        grain = ROUND if own.block.pool.small else SMALL
        first, last = start + own.ref[1] * size, start + own.ref[2] * size - 1
        rank = own.on.rank.rank
        pieces += [("memory", rank, segment, at) for at in range(first // grain, last // grain + 1)]
    return pieces
