"""Streams and events: what is the same on every backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import FunctionType

from dpsim.backend.arguments import unknown_dtype
from dpsim.backend.buffers import JournaledBuffer, OwnStream, check_buffers, of_this_backend, refs
from dpsim.backend.journal import Journal
from dpsim.backend.kernel_call import KernelCall, check_kernel
from dpsim.backend.plain import PLAIN, check_plain, shape_of, whole
from dpsim.backend.work import Outcome, Work
from dpsim.interface import (
    Buffer,
    Event,
    Frozen,
    Kernel,
    Stream,
)
from dpsim.ops import DTYPES, DType

INT = frozenset({int})


class JournaledEvent(Event):
    """A point in a stream; `number` counts the events of the rank."""

    __slots__ = ("journal", "number")

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal = journal
        self.number = number

    def query(self, site: str) -> Work:
        self.journal.note("ask", site, ("query", self.number))
        return Work(self.journal, self._query())

    def synchronize(self, site: str) -> Work:
        self.journal.note("ask", site, ("synchronize", self.number))
        return Work(self.journal, self._synchronize())

    @abstractmethod
    def _query(self) -> Outcome:
        """Learn whether the point has passed."""

    @abstractmethod
    def _synchronize(self) -> Outcome:
        """Wait for the point; learns None."""


class JournaledStream(OwnStream):
    """A stream of a rank."""

    __slots__ = ("journal",)

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self.name = name

    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str) -> Buffer:
        if type(shape) is int and shape >= 0:
            shape = (shape,)
        elif type(shape) is not tuple or not INT.issuperset(map(type, shape)) or min(shape, default=0) < 0:
            shape = shape_of(shape, site)
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site)
        buffer, number = self._alloc(shape, dtype), self.journal.number("buffer")
        self.journal.note("alloc", site, (self.name, number, buffer.count, dtype, buffer.place))
        buffer.named(number, site, self.journal.ordinal)
        return buffer

    def launch(
        self,
        site: str,
        kernel: Kernel,
        *,
        reads: Sequence[Buffer] = (),
        writes: Sequence[Buffer] = (),
        args: tuple[Frozen, ...] = (),
        cost: int | None = None,
    ) -> None:
        if type(kernel) is not FunctionType or kernel.__closure__ or kernel.__defaults__ or kernel.__kwdefaults__:
            check_kernel(kernel, site)
        if args and not PLAIN.issuperset(map(type, args)):
            check_plain(tuple(args), "an argument of the kernel", site, compared=False)
        if cost is not None and (type(cost) is not int or cost < 0):
            cost = whole(cost, "the cost", site, 0)
        journal = self.journal
        try:
            delay = journal.note("launch", site, (self.name, refs(reads) if reads else (), refs(writes)))
        except (AttributeError, TypeError):
            check_buffers(site, reads, writes)
            raise
        if delay:
            self._spin(delay)
        self._launch(KernelCall((journal.rank, site, journal.ordinal), kernel, reads, writes, args, cost))

    def record(self) -> Event:
        journal = self.journal
        number = journal.number("event")
        event = self._record(number)
        journal.note("mark", "record", (self.name, number))
        return event

    def wait(self, event: Event) -> None:
        try:
            number = event.number  # type: ignore[attr-defined]
        except AttributeError:
            number = of_this_backend(event, JournaledEvent).number  # which says what is wrong
        self.journal.note("wait", "wait", (self.name, number))
        self._wait(event)  # type: ignore[arg-type]

    def wait_stream(self, other: Stream) -> None:
        # As `record` and `wait`, and not by calling them: both records tell the program's line.
        source = other if type(other) is type(self) else of_this_backend(other, JournaledStream)
        number = source.journal.number("event")
        event = source._record(number)
        source.journal.note("mark", "record", (source.name, number))
        self.journal.note("wait", "wait", (self.name, number))
        self._wait(event)

    @abstractmethod
    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        """Take memory."""

    @abstractmethod
    def _launch(self, call: KernelCall) -> None:
        """Put the call on the stream. An exception in the kernel is raised as KernelError with the address."""

    @abstractmethod
    def _record(self, number: int) -> JournaledEvent:
        """An event at the stream's present end."""

    @abstractmethod
    def _wait(self, event: JournaledEvent) -> None:
        """Hold later work until the event."""
