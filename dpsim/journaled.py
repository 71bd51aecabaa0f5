"""The half of a backend that is the same for all of them: argument checks, default sites, and the journal.

The public methods of the contract are written here and in `dpsim.journaled_groups`, once. What a backend adds is
small: how to run a kernel, how to copy a buffer, how to start a collective that has been journaled. So an op has the
same address, the same record and the same injected faults everywhere.

    class MyStream(JournaledStream):
        def _launch(self, address, kernel, reads, writes, args, cost): ...      # put it on the stream
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dpsim.interface import (
    Buffer,
    DeviceCommunicator,
    Event,
    Frozen,
    HostArray,
    HostCommunicator,
    Kernel,
    Mailbox,
    Rank,
    Stream,
)
from dpsim.journal import Issue, Journal
from dpsim.ops import DTYPES, DType, Place, Ref, Refs

C = TypeVar("C", bound=HostCommunicator | DeviceCommunicator)

Outcome: TypeAlias = Callable[[], Generator[Any, Any, Any]]
"""Gives what an awaited op learned: a generator that may suspend or block."""


class Work:
    """What a host awaits, exactly once."""

    __slots__ = ("_journal", "_ordinal", "_outcome", "_site", "_taken")

    def __init__(self, journal: Journal, outcome: Outcome) -> None:
        """Of the op that was journaled last."""
        self._journal = journal
        self._site = journal.site
        self._ordinal = journal.ordinal
        self._outcome = outcome
        self._taken = False

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._taken:
            raise RuntimeError(f"{self._site}[{self._ordinal}] was awaited twice; await it once and keep the result")
        self._taken = True
        result = yield from self._outcome()
        self._journal.learned(self._site, self._ordinal, result)
        return result


class JournaledBuffer(Buffer):
    """A buffer, or a view into one (`base`). `ref` is how records name its memory; `refs`: that alone, as records have
    it.
    """

    ref: Ref
    refs: Refs
    place: Place | None = None
    base: JournaledBuffer | None = None

    def __init__(self, stream: JournaledStream, shape: tuple[int, ...], dtype: DType) -> None:
        self.stream = stream
        self.shape = shape
        self.dtype = dtype
        self.count = math.prod(shape)
        self.freed: list[str] = []  # where in the source, once it is; views share it

    def named(self, number: int, site: str, ordinal: int) -> None:
        """Its place in the journal."""
        self.ref = number, 0, self.count
        self.refs = (self.ref,)
        self._site = site
        self._ordinal = ordinal

    def view(self, start: int, stop: int) -> Buffer:
        if not (self.shape and 0 <= start <= stop <= self.shape[0]):
            raise IndexError(f"rows {start} to {stop} are not within a buffer of shape {self.shape}")
        row = math.prod(self.shape[1:])
        piece = self._view(start, stop)
        [(number, first, _)] = refs([self])
        piece.ref = number, first + start * row, first + stop * row
        piece.refs = (piece.ref,)
        piece.base, piece.freed = self.base or self, self.freed
        return piece

    def read(self, site: str, stream: Stream | None = None) -> Work:
        on = stream or self.stream
        journal = self.stream.journal
        delay = journal.note("read", site, (on.name, self.count, self.dtype, ref_of(self)))
        if delay:
            of_this_backend(on, JournaledStream)._spin(delay)
        return Work(journal, self._copy(on))

    def record_stream(self, stream: Stream) -> None:
        base = self.base or self
        self.stream.journal.note("used", "record_stream", (stream.name, refs([base])[0][0]))
        if stream is not base.stream:
            base._hold(stream)

    def free(self) -> None:
        if self.base is not None:
            raise RuntimeError(f"a view is not freed; it ends with its buffer {self.base._site}[{self.base._ordinal}]")
        if self.freed:
            raise RuntimeError(f"the buffer {self._site}[{self._ordinal}] was freed twice, first at {self.freed[0]}")
        self.freed.append(self.stream.journal.free(self.stream.name, self._site, self._ordinal, self.ref[0]))
        self._release()

    def gone(self) -> Ref:
        """What a freed buffer has in the place of a `ref`: an error."""
        base = self.base or self
        raise RuntimeError(f"the buffer {base._site}[{base._ordinal}] is used after it was freed at {self.freed[0]}")

    @abstractmethod
    def _view(self, start: int, stop: int) -> JournaledBuffer:
        """Rows of the first axis, sharing memory."""

    @abstractmethod
    def _copy(self, stream: Stream) -> Outcome:
        """Put a copy to the host on the stream, now; the answer waits for it."""

    @abstractmethod
    def _hold(self, stream: Stream) -> None:
        """Tell the allocator that another stream uses the memory."""

    @abstractmethod
    def _release(self) -> None:
        """Give the memory back."""


class JournaledEvent(Event):
    """A point in a stream; `number` counts the events of the rank."""

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


class JournaledStream(Stream):
    """A stream of a rank."""

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self.name = name

    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str) -> Buffer:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if dtype not in DTYPES:
            raise TypeError(f"{site}: dtype {dtype!r} is none of {', '.join(DTYPES)}")
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
        if getattr(kernel, "__closure__", None):
            raise TypeError(
                f"{site}: the kernel {kernel.__qualname__} is a closure; it would read its variables when it runs, "
                "not as they are now. Pass the values in args"
            )
        journal = self.journal
        delay = journal.note("launch", site, (self.name, refs(reads), refs(writes)))
        if delay:
            self._spin(delay)
        self._launch(f"rank {journal.rank} {site}[{journal.ordinal}]", kernel, reads, writes, args, cost)

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

    @abstractmethod
    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        """Take memory."""

    @abstractmethod
    def _launch(
        self,
        address: str,
        kernel: Kernel,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        args: tuple[Frozen, ...],
        cost: int | None,
    ) -> None:
        """Put the kernel on the stream. An exception in it is raised as KernelError with the address."""

    @abstractmethod
    def _record(self, number: int) -> JournaledEvent:
        """An event at the stream's present end."""

    @abstractmethod
    def _wait(self, event: JournaledEvent) -> None:
        """Hold later work until the event."""

    @abstractmethod
    def _spin(self, ns: int) -> None:
        """Hold the stream for so long: an injected delay."""


class KernelError(RuntimeError):
    """A kernel raised, perhaps long after its launch; the message has the address of the launch."""

    @staticmethod
    def of(address: str, kernel: Kernel, error: BaseException) -> KernelError:
        return KernelError(f"kernel {kernel.__qualname__} of {address}: {type(error).__name__}: {error}")


class JournaledMailbox(Mailbox):
    """A mailbox of the rank that looks into it."""

    def __init__(self, rank: JournaledRank, name: str) -> None:
        self.rank = rank
        self.name = name

    def poll(self, site: str) -> Work:
        journal = self.rank.journal
        delay = journal.note("take", site, (self.name, "poll"))
        return Work(journal, self.rank._take(self.name, "poll", delay))

    def get(self, site: str, *, idle: bool = False) -> Work:
        how = "idle" if idle else "get"
        journal = self.rank.journal
        delay = journal.note("take", site, (self.name, how))
        return Work(journal, self.rank._take(self.name, how, delay))


class JournaledRank(Rank):
    """One rank with one host thread; the step tag lives in its journal."""

    def __init__(self, journal: Journal) -> None:
        self.rank = journal.rank
        self.thread = "main"
        self.journal = journal
        self.streams: dict[str, Any] = {}
        self.hosts: dict[str, HostCommunicator] = {}
        self.devices: dict[str, DeviceCommunicator] = {}

    @property
    def step(self) -> int:
        return self.journal.step

    @step.setter
    def step(self, step: int) -> None:
        self.journal.step = step

    def stream(self, name: str) -> Stream:
        stream: Stream | None = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = self._stream(name)
        return stream

    def host(self, kind: str) -> HostCommunicator:
        return _find(self.hosts, kind, self.rank, "host")

    def device(self, kind: str) -> DeviceCommunicator:
        return _find(self.devices, kind, self.rank, "device")

    def mailbox(self, name: str) -> Mailbox:
        return JournaledMailbox(self, name)

    def send(self, to: int, mailbox: str, message: Frozen, site: str) -> None:
        if message is None:
            raise ValueError(f"{site}: None is what poll gives for an empty mailbox, and cannot be a message")
        delay = self.journal.note("post", site, (to, mailbox, message))
        self._post(to, mailbox, message, delay)

    def sleep(self, ns: int, site: str) -> Work:
        delay = self.journal.note("sleep", site, (ns,))
        return Work(self.journal, self._sleep(ns + delay))

    def decide(self, label: str, value: Frozen, kind: str) -> None:
        name = self.hosts[kind].name if kind in self.hosts else self.device(kind).name
        self.journal.note("decision", label, (name, value))

    def probe(self, label: str) -> None:
        self.journal.note("probe", label, ())

    @abstractmethod
    def _stream(self, name: str) -> Stream:
        """Make a stream."""

    @abstractmethod
    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        """Send; does not wait. ValueError if there is no such rank."""

    @abstractmethod
    def _take(self, mailbox: str, how: str, delay_ns: int) -> Outcome:
        """Look into a mailbox, `how` as in the record `Take`; learns the message, or None for a poll that finds
        none.
        """

    @abstractmethod
    def _sleep(self, ns: int) -> Outcome:
        """Let the host stand still; learns None."""


def refs(buffers: Sequence[Buffer]) -> Refs:
    """How records name the memory of these buffers. Raises RuntimeError for one that was freed."""
    if len(buffers) == 1:
        [buffer] = buffers
        if not buffer.freed:  # type: ignore[attr-defined]
            own: Refs = buffer.refs  # type: ignore[attr-defined]
            return own
    # Whether they are buffers of this backend is seen where they are used.
    return tuple([one.gone() if one.freed else one.ref for one in buffers])  # type: ignore[attr-defined]


def ref_of(buffer: Buffer) -> Refs:
    """The same for one buffer: it has the tuple at hand."""
    refs: Refs = (buffer.gone(),) if buffer.freed else buffer.refs  # type: ignore[attr-defined]
    return refs


def of_this_backend(thing: Any, kind: type[Any]) -> Any:
    """The thing, if it is of that class. Raises TypeError for one of another backend."""
    if not isinstance(thing, kind):
        raise TypeError(f"a {kind.__name__} of this backend is needed, not a {type(thing).__name__}")
    return thing


def resized(array: HostArray, issue: Issue) -> HostArray:
    """A flat copy of `array` with the count and type that an altered collective announces: cut, or filled with
    zeros.
    """
    flat = np.zeros(issue.count, issue.dtype)
    size = min(issue.count, array.size)
    flat[:size] = array.reshape(-1)[:size]
    return flat


def _find(table: Mapping[str, C], kind: str, rank: int, domain: str) -> C:
    if kind not in table:
        raise KeyError(f"rank {rank} has no {domain} communicator {kind!r}; it has {', '.join(table) or 'none'}")
    return table[kind]
