"""Communicators of a rank: argument checks, default sites, the journal. What a backend adds is how to start an issue.

Every method plans an `Issue`, journals it, and hands what became of it to the backend: none if it was skipped, two
if it was repeated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from dpsim.backend.arguments import (
    check_member,
    check_peer,
    check_sizes,
    count_of,
    dtype_of,
    equal_size,
    given_sizes,
    reduction_name,
    unknown_dtype,
)
from dpsim.backend.buffers import OwnStream, of_this_backend, ref_of, untagged
from dpsim.backend.issue import Issue, plan
from dpsim.backend.journal import Journal
from dpsim.backend.kept import Memory
from dpsim.backend.plain import shape_of
from dpsim.backend.work import Outcome, Work
from dpsim.interface import Buffer, DeviceCommunicator, HostArray, HostCommunicator, Stream
from dpsim.ops import DTYPES, DType, ReduceOp
from dpsim.world import CommunicatorSpec


class JournaledHostCommunicator(HostCommunicator):
    """Host collectives and transfers of one rank."""

    __slots__ = ("journal",)

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)

    def all_reduce(self, array: HostArray, *, op: ReduceOp = "sum", site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        issue = plan("all_reduce", array.size, dtype, None, reduction_name(op))
        return self._collective(issue, array, array.shape, site)

    def broadcast(self, array: HostArray, root: int, *, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        root = check_member(self, root, "root")
        issue = plan("broadcast", array.size, dtype, root)
        return self._collective(issue, array, array.shape, site)

    def all_gather(self, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        whole = check_sizes(self, "sizes", sizes, array.size * self.size)
        if whole[self.index] != array.size:
            raise ValueError(
                f"{self.name}: sizes say {whole[self.index]} elements of this rank, it brings {array.size}"
            )
        issue = plan("all_gather", array.size, dtype, None, None, given_sizes(sizes))
        return self._collective(issue, array, (sum(whole),), site)

    def reduce_scatter(self, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        whole = check_sizes(self, "sizes", sizes, array.size)
        issue = plan("reduce_scatter", array.size, dtype, None, "sum", given_sizes(sizes))
        return self._collective(issue, array, (whole[self.index],), site)

    def all_to_all(
        self,
        array: HostArray,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> Work:
        dtype = dtype_of(array, site or self.name)
        sizes: tuple[int, ...] = ()
        come = array.size if output_sizes is None else sum(given_sizes(output_sizes))
        if source_sizes is None and output_sizes is None:
            equal_size(self, "source_sizes", come)
        else:
            go = check_sizes(self, "source_sizes", source_sizes, array.size)
            sizes = (*go, *check_sizes(self, "output_sizes", output_sizes, come))
        issue = plan("all_to_all", array.size, dtype, None, None, sizes)
        return self._collective(issue, array, (come,), site)

    def barrier(self, *, site: str | None = None) -> Work:
        return self._collective(plan("barrier", 0, "int32"), np.empty(0, np.int32), (0,), site)

    def send(self, array: HostArray, to: int, *, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        to = check_peer(self, to)
        issue = plan("send", array.size, dtype, None, None, (), to)
        return self._transfer(issue, array, (0,), site)

    def recv(self, shape: int | tuple[int, ...], dtype: DType, source: int, *, site: str | None = None) -> Work:
        source = check_peer(self, source)
        shape = shape_of(shape, site or f"{self.name}.recv")
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site or f"{self.name}.recv")
        array = np.zeros(shape, dtype)  # a message that is too short leaves the rest
        issue = plan("recv", array.size, dtype, None, None, (), source)
        return self._transfer(issue, array, shape, site)

    def _collective(self, issue: Issue, array: HostArray, shape: tuple[int, ...], site: str | None) -> Work:
        site = site or f"{self.name}.{issue.op}"
        issues = self.journal.collective(self.name, issue, None, site)
        return Work(self.journal, self._start(issues, array, shape))

    def _transfer(self, issue: Issue, array: HostArray, shape: tuple[int, ...], site: str | None) -> Work:
        site = site or f"{self.name}.{issue.op}"
        issues = self.journal.transfer(self.name, issue, None, site)
        return Work(self.journal, self._start(issues, array, shape))

    @abstractmethod
    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> Outcome:
        """Start each issue on a copy of `array`, now. The answer waits for the last and gives its result, of
        `shape`; where there is none, as much of the input as fits, and zeros.
        """


class JournaledDeviceCommunicator(DeviceCommunicator):
    """Device collectives and transfers of one rank."""

    __slots__ = ("_group", "_together", "journal")

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)
        self._group: int | None = None
        self._together: Stream | None = None

    def all_reduce(self, buffer: Buffer, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None) -> None:
        issue = plan("all_reduce", count_of(buffer, self), buffer.dtype, None, reduction_name(op))
        self._collective(issue, buffer, buffer, stream, site)

    def broadcast(self, buffer: Buffer, root: int, stream: Stream, *, site: str | None = None) -> None:
        root = check_member(self, root, "root")
        issue = plan("broadcast", count_of(buffer, self), buffer.dtype, root)
        self._collective(issue, buffer, buffer, stream, site)

    def all_gather(
        self,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        brings = count_of(source, self)
        whole = check_sizes(self, "sizes", sizes, brings * self.size)
        self._check_fits("source", brings, whole[self.index])
        self._check_fits("output", count_of(output, self), sum(whole))
        issue = plan("all_gather", brings, source.dtype, None, None, given_sizes(sizes))
        self._collective(issue, output, source, stream, site)

    def reduce_scatter(
        self,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        brings = count_of(source, self)
        whole = check_sizes(self, "sizes", sizes, brings)
        self._check_fits("source", brings, sum(whole))
        self._check_fits("output", count_of(output, self), whole[self.index])
        issue = plan("reduce_scatter", brings, source.dtype, None, "sum", given_sizes(sizes))
        self._collective(issue, output, source, stream, site)

    def all_to_all(
        self,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        brings, comes = count_of(source, self), count_of(output, self)
        sizes: tuple[int, ...] = ()
        if source_sizes is None and output_sizes is None:
            equal_size(self, "source_sizes", brings)
            if comes != brings:
                equal_size(self, "output_sizes", comes)
        else:
            go = check_sizes(self, "source_sizes", source_sizes, brings)
            self._check_fits("source", brings, sum(go))
            come_from = check_sizes(self, "output_sizes", output_sizes, comes)
            self._check_fits("output", comes, sum(come_from))
            sizes = (*go, *come_from)
        issue = plan("all_to_all", brings, source.dtype, None, None, sizes)
        self._collective(issue, output, source, stream, site)

    def send(self, buffer: Buffer, to: int, stream: Stream, *, site: str | None = None) -> None:
        to = check_peer(self, to)
        issue = plan("send", count_of(buffer, self), buffer.dtype, None, None, (), to)
        self._transfer(issue, buffer, stream, site)

    def recv(self, buffer: Buffer, source: int, stream: Stream, *, site: str | None = None) -> None:
        source = check_peer(self, source)
        issue = plan("recv", count_of(buffer, self), buffer.dtype, None, None, (), source)
        self._transfer(issue, buffer, stream, site)

    def coalesced(self, stream: Stream) -> AbstractContextManager[None]:
        if self._group is not None:
            raise RuntimeError(f"{self.name}: a coalesced group is open already; groups are not nested")
        return self._coalesce(stream)

    @contextmanager
    def _coalesce(self, stream: Stream) -> Generator[None, None, None]:
        self._group, self._together = self.journal.number("group"), stream
        capture = of_this_backend(stream, OwnStream).capture  # of a JournaledStream
        if capture is not None:
            capture.open(self, stream)
        if capture is None or capture.graph.captures:
            self._open(stream)
        try:
            yield
        finally:
            self._group = None
            if capture is not None:
                capture.close()
            if capture is None or capture.graph.captures:
                self._close(stream)

    def _collective(self, issue: Issue, output: Buffer, source: Buffer, stream: Stream, site: str | None) -> None:
        if self._group is not None:
            raise RuntimeError(f"{self.name}: {issue.op} within a coalesced group, which is for send and recv")
        try:
            on = stream.name
        except AttributeError:
            on = of_this_backend(stream, OwnStream).name  # which says what is wrong
        site = site or f"{self.name}.{issue.op}"
        root, rank = issue.root, self.journal.rank
        reads = ref_of(source) if root is None or root == rank else ()
        writes = ref_of(output) if root != rank else ()
        capture = stream.capture  # type: ignore[attr-defined]
        if capture is not None:
            memory = Memory([source] if reads else [], tags=reads is not writes), Memory([output] if writes else [])
            capture.collective(self, issue, output, source, stream, site, memory)
            return
        if reads is writes:  # in place: a tag is what the collective leaves
            reads = untagged(reads) if len(reads[0]) > 3 else reads
        self._put(self.journal.collective(self.name, issue, on, site, reads, writes), output, source, stream)

    def _transfer(self, issue: Issue, buffer: Buffer, stream: Stream, site: str | None) -> None:
        try:
            on = stream.name
        except AttributeError:
            on = of_this_backend(stream, OwnStream).name
        memory = ref_of(buffer)
        reads, writes = (memory, ()) if issue.op == "send" else ((), memory)
        if self._group is not None:
            issue = issue._replace(group=self._group)
            if stream is not self._together:
                raise ValueError(f"{self.name}: a transfer on stream {on} within a group on another stream")
        site = site or f"{self.name}.{issue.op}"
        capture = stream.capture  # type: ignore[attr-defined]
        if capture is not None:
            memory_of = Memory([buffer] if reads else []), Memory([buffer] if writes else [])
            capture.transfer(self, issue, buffer, stream, site, memory_of)
            return
        self._move(self.journal.transfer(self.name, issue, on, site, reads, writes), buffer, stream)

    def _check_fits(self, what: str, count: int, wanted: int) -> None:
        if count != wanted:
            raise ValueError(f"{self.name}: the {what} has {count} elements, by the sizes it needs {wanted}")

    @abstractmethod
    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        """Put each issue on the stream, in order; the input is `source`, the result goes to `output`, perhaps the
        same.
        """

    @abstractmethod
    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        """Put each transfer on the stream; those of an open group go out when it is closed."""

    @abstractmethod
    def _open(self, stream: Stream) -> None:
        """Begin a coalesced group."""

    @abstractmethod
    def _close(self, stream: Stream) -> None:
        """Send off the coalesced group."""
