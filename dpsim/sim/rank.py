"""The contract on the simulated machine: one rank, its streams, events and memory.

A stream is a chain of ops: its tail is what the next one waits for. Events are points in such chains, and waiting
for one is an edge to the stream's next op. Memory comes from a caching allocator and is real: buffers are views
into segments, so memory that is reused too early gives wrong numbers, as on a device.
"""

from __future__ import annotations

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
from dpsim.ops import DTYPES, DType
from dpsim.schedule import Footprint
from dpsim.sim.allocator import ROUND, SMALL, Block, CachingAllocator
from dpsim.sim.costs import Costs
from dpsim.sim.machine import Machine, Op
from dpsim.sim.mailbox import Mailboxes

if TYPE_CHECKING:
    from dpsim.sim.groups import Group


class SimRank(JournaledRank):
    """One rank of the simulation."""

    def __init__(self, journal: Journal, machine: Machine, costs: Costs, boxes: Mailboxes, expandable: bool) -> None:
        super().__init__(journal)
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
        self.learned: list[tuple[int, int]] = []
        """Untimed: (its step, `past`), whenever the host has learned something."""
        self.lives: Footprint | None = ((("life", self.rank), "r"),) if self.rank in machine.mortal else None
        self._resumed = 0
        self._boxes = boxes

    def _stream(self, name: str) -> Stream:
        return SimStream(self, name)

    def op(self, label: str, cost: int = 0, effect: Callable[[], Any] | None = None) -> Op:
        """Something that this rank does, after what its host knows."""
        op = Op(label, cost, effect, self.lives, self.rank)
        op.past = self.past
        return op

    def address(self, verb: str = "") -> str:
        """The op that the host issued last, as a label; empty where nobody looks at labels."""
        if not self.machine.visible:
            return ""
        site = self.journal.site
        return f"rank {self.rank} {verb}{' ' * bool(verb)}{site}[{self.journal.last_ordinal(site)}]"

    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        label = self.address("delivers")
        self._boxes.post(label, self.rank, to, mailbox, message, self.costs.message + delay_ns, self.past)

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
            return op.value if result is None else result
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
        self.tail: Op | None = None
        self._waits: list[Op] = []

    def append(self, op: Op) -> None:
        """Put an op at the end."""
        if self._waits:
            self._join(op)
        before, self.tail = self.tail, op
        self.rank.machine.follow(before, op)

    def end(self) -> Op | None:
        """The op after which all that the stream has so far is done; None if there is nothing."""
        if self._waits:
            self.append(self.rank.op(""))
        return self.tail

    def heads(self) -> tuple[Op, ...]:
        """What the next op comes after, for one that is not put at the end by `append`."""
        if not self._waits or not self.rank.machine.timed:
            end = self.end()
            return () if end is None else (end,)
        waits, self._waits = self._waits, []
        return tuple(waits) if self.tail is None else (self.tail, *waits)

    def _join(self, op: Op) -> None:
        for before in self._waits:
            self.rank.machine.edge(before, op)
        self._waits = []

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
        rank = self.rank
        try:
            arrays = (*map(ARRAY, reads), *map(ARRAY, writes))
        except AttributeError:
            arrays = tuple([array_of(buffer) for buffer in (*reads, *writes)])  # which says what is wrong
        ns = rank.costs.kernel if cost is None else cost
        op = Launch(address, ns, kernel, rank.lives, rank.rank, (*arrays, *args))
        op.rank, op.past = rank, rank.past
        if rank.machine.memory:
            op.footprint = (*op.touches(), *touched(reads, writes)) or None
        self.append(op)

    def _record(self, number: int) -> JournaledEvent:
        return SimEvent(self.rank, number, self.end() if self._waits else self.tail)

    def _wait(self, event: JournaledEvent) -> None:
        op = event.op if type(event) is SimEvent else of_this_backend(event, SimEvent).op
        if op is not None and op.at < 0:
            self._waits.append(op)
        elif op is not None and not self.rank.machine.timed:
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

    def _query(self) -> Outcome:
        rank, point = self.rank, self.op
        op = rank.op(rank.address(), 0, lambda: point is None or point.at >= 0)
        if not rank.machine.timed and point is not None and point.at < 0:
            event = ("event", rank.rank, self.number)
            rank.machine.watch(point, (event, "w"))
            op.footprint = (*op.touches(), (event, "r"))

        def outcome() -> Generator[Any, Any, bool]:
            rank.machine.submit(op)
            passed: bool = yield from rank.wait(op)
            if passed and point is not None:
                rank.known |= point.known
                rank.past |= point.past
            return passed

        return outcome

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
    bit = rank.machine.mark(point)
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
