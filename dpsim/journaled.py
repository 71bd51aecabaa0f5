"""The half of a backend that is the same for all of them: argument checks, default sites, and the journal.

The public methods of the contract are written here, once. What a backend adds is small: how to start a collective
that has been journaled, how to run a kernel, how to copy a buffer. So an op has the same address, the same record
and the same injected faults everywhere.

    class MyDeviceCommunicator(JournaledDeviceCommunicator):
        def _put(self, issues, buffer, stream): ...      # issue each, in order, on the stream
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dpsim.interface import (
    Buffer,
    DeviceCommunicator,
    Frozen,
    HostArray,
    HostCommunicator,
    Kernel,
    Rank,
    Stream,
)
from dpsim.journal import Issue, Journal
from dpsim.ops import DTYPES, DType
from dpsim.world import CommunicatorSpec

C = TypeVar("C", bound=HostCommunicator | DeviceCommunicator)


class Work:
    """What a host awaits, exactly once. `outcome` gives the result: a generator, which may suspend or block."""

    __slots__ = ("_journal", "_ordinal", "_outcome", "_site", "_taken")

    def __init__(
        self, journal: Journal, site: str, ordinal: int, outcome: Callable[[], Generator[Any, Any, HostArray]]
    ) -> None:
        self._journal = journal
        self._site = site
        self._ordinal = ordinal
        self._outcome = outcome
        self._taken = False

    def __await__(self) -> Generator[Any, Any, HostArray]:
        if self._taken:
            raise RuntimeError(f"{self._site}[{self._ordinal}] was awaited twice; await it once and keep the result")
        self._taken = True
        result = yield from self._outcome()
        self._journal.learned(self._site, self._ordinal, result)
        return result


class JournaledBuffer(Buffer):
    """A buffer with a place in a stream."""

    def __init__(self, stream: JournaledStream, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> None:
        self.stream = stream
        self.shape = shape
        self.dtype = dtype
        self.count = math.prod(shape)
        self._site = site
        self._ordinal = ordinal

    def read(self, site: str) -> Work:
        journal = self.stream.journal
        ordinal, delay = journal.read(self.stream.name, site, self.count, self.dtype)
        return Work(journal, site, ordinal, self._copy(delay))

    def free(self) -> None:
        self.stream.journal.free(self.stream.name, self._site, self._ordinal)
        self._release()

    @abstractmethod
    def _copy(self, delay_ns: int) -> Callable[[], Generator[Any, Any, HostArray]]:
        """Put a copy to the host on the stream, now; the answer waits for it."""

    @abstractmethod
    def _release(self) -> None:
        """Give the memory back."""


class JournaledStream(Stream):
    """A stream of a rank."""

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self.name = name

    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str) -> Buffer:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if dtype not in DTYPES:
            raise TypeError(f"{site}: dtype {dtype!r} is none of {', '.join(DTYPES)}")
        ordinal = self.journal.alloc(self.name, site, math.prod(shape), dtype)
        return self._alloc(shape, dtype, site, ordinal)

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
        inputs = [buffer.count for buffer in reads if isinstance(buffer, JournaledBuffer)]
        outputs = [buffer.count for buffer in writes if isinstance(buffer, JournaledBuffer)]
        delay = self.journal.launch(self.name, site, tuple(inputs), tuple(outputs))
        if delay:
            self._spin(delay)
        self._launch(site, kernel, [*reads, *writes], args, cost)

    @abstractmethod
    def _alloc(self, shape: tuple[int, ...], dtype: DType, site: str, ordinal: int) -> Buffer:
        """Take memory. `ordinal` is that of the journaled op."""

    @abstractmethod
    def _launch(
        self, site: str, kernel: Kernel, buffers: Sequence[Buffer], args: tuple[Frozen, ...], cost: int | None
    ) -> None:
        """Put the kernel on the stream."""

    @abstractmethod
    def _spin(self, ns: int) -> None:
        """Hold the stream for so long: an injected delay."""


class JournaledHostCommunicator(HostCommunicator):
    """Host collectives of one rank."""

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)

    def all_reduce(self, array: HostArray, *, site: str | None = None) -> Work:
        site = site or f"{self.name}.all_reduce"
        issues = self.journal.collective(self.name, "all_reduce", array.size, _dtype(array, site), None, None, site)
        return Work(self.journal, site, self.journal.last_ordinal(site), self._start(issues, array))

    def broadcast(self, array: HostArray, root: int, *, site: str | None = None) -> Work:
        site = site or f"{self.name}.broadcast"
        _check_root(self, root, site)
        issues = self.journal.collective(self.name, "broadcast", array.size, _dtype(array, site), root, None, site)
        return Work(self.journal, site, self.journal.last_ordinal(site), self._start(issues, array))

    @abstractmethod
    def _start(self, issues: list[Issue], array: HostArray) -> Callable[[], Generator[Any, Any, HostArray]]:
        """Start each issue on a copy of `array`, now; the answer waits for the last and gives its result, or the
        copy if there is none.
        """


class JournaledDeviceCommunicator(DeviceCommunicator):
    """Device collectives of one rank."""

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)

    def all_reduce(self, buffer: Buffer, stream: Stream, *, site: str | None = None) -> None:
        site = site or f"{self.name}.all_reduce"
        count = math.prod(buffer.shape)
        self._put(
            self.journal.collective(self.name, "all_reduce", count, buffer.dtype, None, stream.name, site),
            buffer,
            stream,
        )

    def broadcast(self, buffer: Buffer, root: int, stream: Stream, *, site: str | None = None) -> None:
        site = site or f"{self.name}.broadcast"
        _check_root(self, root, site)
        count = math.prod(buffer.shape)
        self._put(
            self.journal.collective(self.name, "broadcast", count, buffer.dtype, root, stream.name, site),
            buffer,
            stream,
        )

    @abstractmethod
    def _put(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        """Put each issue on the stream, in order, in place."""


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

    def decide(self, label: str, value: Frozen, kind: str) -> None:
        table: dict[str, Any] = {**self.devices, **self.hosts}
        self.journal.decide(label, _find(table, kind, self.rank, "host or device").name, value)

    @abstractmethod
    def _stream(self, name: str) -> Stream:
        """Make a stream."""


def resized(array: HostArray, issue: Issue) -> HostArray:
    """A flat copy of `array` with the count and type that an altered collective announces: cut, or filled up with
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


def _dtype(array: HostArray, site: str) -> str:
    if array.dtype.name not in DTYPES:
        raise TypeError(f"{site}: dtype {array.dtype.name} is none of {', '.join(DTYPES)}")
    return array.dtype.name


def _check_root(communicator: HostCommunicator | DeviceCommunicator, root: int, site: str) -> None:
    if root not in communicator.ranks:
        raise ValueError(f"{site}: root {root} is no member of {communicator.name} (ranks {communicator.ranks})")
