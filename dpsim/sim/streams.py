"""Streams and events of the simulated machine. A stream is a chain of ops: its tail is what the next one waits for.
Events are points in such chains, and waiting for one is an edge to the stream's next op.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from dpsim.backend.buffers import JournaledBuffer, of_this_backend
from dpsim.backend.streams import JournaledEvent, JournaledStream, KernelError
from dpsim.backend.work import Outcome
from dpsim.interface import Buffer, Frozen, Kernel
from dpsim.ops import DType
from dpsim.sim.buffers import ARRAY, SimBuffer, array_of, touched
from dpsim.sim.op import Op

if TYPE_CHECKING:
    from dpsim.sim.rank import SimRank


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
        machine.follow(before, op)

    def end(self) -> Op | None:
        """The op after which all that the stream has so far is done; None if there is nothing."""
        if self._waits:
            self._points += 1
            label = f"rank {self.rank.rank} {self.name} joins #{self._points}" if self.rank.lives else ""
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
        point = self.end() if self._waits else self.tail
        if point is not None and not self.machine.timed:
            self.machine.mark(point)
        return SimEvent(self.rank, number, point)

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
        op = rank.op(rank.address(), 0, self._passed, host=True)

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
            if rank.error is not None:
                raise rank.error
            if yes and point is not None:
                rank.seen_marks |= point.seen_marks
                rank.causes |= point.causes
            return yes

        return outcome

    def _known(self) -> bool:
        return self.op is None or bool(self.rank.seen_marks & self.rank.machine.mark(self.op))

    def _passed(self) -> bool:
        if self.rank.machine.timed:
            return self.op is None or self.op.at >= 0
        return self._known() or (self._seen is not None and self._seen.at >= 0)

    def _synchronize(self) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            if self.op is not None:
                yield from self.rank.wait_for_device(self.op)

        return outcome
