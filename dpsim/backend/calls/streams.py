"""Streams and events: what is the same on every backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from sys import _getframe
from types import FrameType, FunctionType

from dpsim.backend.graphs.branches import CapturedPoint, captured_event
from dpsim.backend.graphs.capture import GraphCapture
from dpsim.backend.graphs.kernel_call import KNOWN, KernelCall, OnTrial, check_kernel
from dpsim.backend.hosts.arguments import unknown_dtype
from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import PLAIN, check_plain, shape_of, whole
from dpsim.backend.memory.buffers import JournaledBuffer, OwnStream, check_buffers, of_this_backend, refs
from dpsim.contract.interface import (
    Buffer,
    Event,
    Flag,
    Frozen,
    Kernel,
    Stream,
)
from dpsim.contract.ops import DTYPES, DType

INT = frozenset({int})

PER_REPLAY = "per_replay"
"""The site of the record for a buffer with `per_replay`."""


def captured_per_replay(site: str) -> ValueError:
    """Returns the error for `per_replay` within a capture."""
    return ValueError(
        f"{site}: per_replay within a capture, where each replay takes its memory anew; allocate the buffer before the "
        "capture, or leave per_replay out"
    )


class JournaledEvent(Event):
    """A point in a stream. `number` counts the events of the rank."""

    __slots__ = ("journal", "number", "point")

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal = journal
        self.number = number
        self.point: CapturedPoint | None = None
        """Where a capture recorded it; None outside a capture."""

    def query(self, site: str) -> Work:
        if self.journal.turn is not None:
            self.journal.on("event", self.journal.thread)
            self.journal.come(site)
        if self.point is not None:
            raise captured_event(self, site, self.journal.shared.capture)
        self.journal.note("ask", site, ("query", self.number))
        return Work(self.journal, self._query())

    def synchronize(self, site: str) -> Work:
        if self.journal.turn is not None:
            self.journal.on("event", self.journal.thread)
            self.journal.come(site)
        if self.point is not None:
            raise captured_event(self, site, self.journal.shared.capture)
        self.journal.note("ask", site, ("synchronize", self.number))
        return Work(self.journal, self._synchronize())

    def synchronize_at(self, site: str, frame: FrameType) -> Work:
        """As `synchronize`, with the program's line at this frame."""
        self.journal.note_at("ask", site, ("synchronize", self.number), frame)
        return Work(self.journal, self._synchronize())

    @abstractmethod
    def _again(self, stream: JournaledStream) -> None:
        """Records the event again, at the present end of that stream."""

    @abstractmethod
    def _query(self) -> Outcome:
        """The outcome says whether the event has passed."""

    @abstractmethod
    def _synchronize(self) -> Outcome:
        """Waits until the event has passed. The outcome is None."""


class JournaledStream(OwnStream):
    """A stream of a rank."""

    __slots__ = ("capture", "home", "journal")

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self.name = self.home = name
        self.capture: GraphCapture | None = None
        """The capture that keeps the calls on this stream, or None."""

    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str, *, per_replay: bool = False) -> Buffer:
        if per_replay and self.capture is not None:
            raise captured_per_replay(site)
        if type(shape) is int and shape >= 0:
            shape = (shape,)
        elif type(shape) is not tuple or not INT.issuperset(map(type, shape)) or min(shape, default=0) < 0:
            shape = shape_of(shape, site)
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site)
        if self.journal.turn is not None:
            self.journal.on("stream", self.name)
            self.journal.come(site)
        buffer, number = self._alloc(shape, dtype), self.journal.number("buffer")
        self.journal.note("alloc", site, (self.home, number, buffer.count, dtype, buffer.place))
        buffer.named(number, site, self.journal.ordinal)
        if self.capture is not None:
            self.capture.took(self, buffer, (site, self.journal.ordinal, self.journal.place(site)))
        if per_replay:
            self.journal.note("fresh", PER_REPLAY, (self.home, number))
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
        if type(kernel) is not FunctionType or kernel not in KNOWN:
            check_kernel(kernel, site)
            kernel = OnTrial(kernel)
        if args and not PLAIN.issuperset(map(type, args)):
            check_plain(tuple(args), "an argument of the kernel", site, compared=False)
        if cost is not None and (type(cost) is not int or cost < 0):
            cost = whole(cost, "the cost", site, 0)
        if self.journal.turn is not None:
            self.journal.on("stream", self.name)
            self.journal.come(site)
        if self.capture is not None:
            check_buffers(site, reads, writes)
            self.capture.launch(self, site, kernel, reads, writes, args, cost)
            return
        journal = self.journal
        try:
            # A fast path: most launches read one buffer or none, and write one.
            read = (reads[0].refs if len(reads) == 1 and not reads[0].freed else refs(reads)) if reads else ()  # type: ignore[attr-defined]
            written = writes[0].refs if len(writes) == 1 and not writes[0].freed else refs(writes)  # type: ignore[attr-defined]
            delay = journal.note("launch", site, (self.name, read, written))
        except (AttributeError, LookupError, TypeError):
            check_buffers(site, reads, writes)
            raise
        if delay:
            self._spin(delay)
        self._launch(KernelCall((journal.rank, site, journal.ordinal), kernel, reads, writes, args, cost))

    def record(self, event: Event | None = None) -> Event:
        journal = self.journal
        if journal.turn is not None:
            journal.on("stream", self.name)
            journal.come("record")
        if event is not None or self.capture is not None:
            return self._record_else(event, _getframe(1))
        number = next(journal.events)
        point = self._record(number)
        journal.note("mark", "record", (self.name, number))
        return point

    def wait(self, event: Event) -> None:
        own: JournaledEvent = event if isinstance(event, JournaledEvent) else of_this_backend(event, JournaledEvent)
        if self.journal.turn is not None:
            self.journal.on("stream", self.name)
            self.journal.come("wait")
        if own.point is not None or self.capture is not None:
            self._wait_within(own, _getframe(1))
            return
        self.journal.note("wait", "wait", (self.name, own.number))
        self._wait(own)

    def wait_stream(self, other: Stream) -> None:
        # The bodies of `record` and `wait`, so that both records contain the program's line.
        source: JournaledStream = other if type(other) is type(self) else of_this_backend(other, JournaledStream)
        if source.journal.turn is not None:
            source.journal.on("stream", source.name)
            source.journal.come("record")
        if source.capture is not None:
            event = source._record_else(None, _getframe(1))
            number = event.number
        else:
            number = next(source.journal.events)
            event = source._record(number, True)
            source.journal.note("mark", "record", (source.name, number))
        if self.journal.turn is not None:
            self.journal.on("stream", self.name)
            self.journal.come("wait")
        if event.point is not None or self.capture is not None:
            self._wait_within(event, _getframe(1))
            return
        self.journal.note("wait", "wait", (self.name, number))
        self._wait(event)

    def wait_flag(self, flag: Flag, site: str) -> None:
        own: JournaledFlag = of_this_backend(flag, JournaledFlag)
        journal = self.journal
        if own.journal.shared is not journal.shared:
            raise ValueError(
                f"{site}: stream {self.name} of rank {journal.rank} cannot wait for flag {own.name} of rank "
                f"{own.journal.rank}; pass a flag of the stream's rank"
            )
        journal.about = "flag", own.name, "wait_flag"
        if journal.turn is not None:
            journal.come(site)
        if self.capture is not None:
            self.capture.wait_flag(self, own, site, _getframe(1))
            return
        delay = journal.note("flag_wait", site, (self.name, own.name))
        if delay:
            self._spin(delay)
        self._wait_flag(own)

    def _record_else(self, event: Event | None, frame: FrameType) -> JournaledEvent:
        if self.capture is not None:
            self.capture.valid("record")
        if event is None:
            point = self._record(self.journal.number("event"), self.capture is not None)
        else:
            point = of_this_backend(event, JournaledEvent)
            point._again(self)
        if self.capture is not None:
            self.capture.record(self, point, frame)
        else:
            point.point = None
            self.journal.note_at("mark", "record", (self.name, point.number), frame)
        return point

    def _wait_at(self, event: JournaledEvent, frame: FrameType) -> None:
        self.journal.note_at("wait", "wait", (self.name, event.number), frame)
        self._wait(event)

    def _wait_within(self, event: JournaledEvent, frame: FrameType) -> None:
        point = event.point
        capture = self.capture or (point.capture if point is not None and point.capture.under_way else None)
        if capture is None:
            raise captured_event(event, "wait", self.journal.shared.capture)
        capture.wait(self, event, frame)

    @abstractmethod
    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        """Allocates memory."""

    @abstractmethod
    def _launch(self, call: KernelCall) -> None:
        """Puts the kernel call on the stream. An exception in the kernel is raised as KernelError with the address."""

    @abstractmethod
    def _record(self, number: int, joins: bool = False) -> JournaledEvent:
        """Returns an event at the stream's end. `joins`: no host queries it, and only another stream waits for it."""

    @abstractmethod
    def _wait(self, event: JournaledEvent) -> None:
        """Lets later work of the stream wait for the event."""

    @abstractmethod
    def _wait_flag(self, flag: JournaledFlag) -> None:
        """Lets later work of the stream wait until it reads the flag as set."""
