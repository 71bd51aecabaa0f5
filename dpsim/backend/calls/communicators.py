"""Device communicators of a rank: argument checks, default sites, the journal. What a backend adds is how to start an
issue.

Every method plans an `Issue`, journals it, and hands what became of it to the backend: none if it was skipped, two
if it was repeated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

from dpsim.backend.graphs.replaying import CallMemory
from dpsim.backend.hosts.aborting import Abortable
from dpsim.backend.hosts.arguments import (
    check_member,
    check_peer,
    check_sizes,
    count_of,
    equal_size,
    given_sizes,
    reduction_name,
)
from dpsim.backend.journal.issue import Issue, plan
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import whole
from dpsim.backend.memory.buffers import OwnStream, of_this_backend, ref_of, untagged
from dpsim.contract.interface import Buffer, DeviceCommunicator, Stream
from dpsim.contract.ops import ReduceOp
from dpsim.contract.world import CommunicatorSpec


class JournaledDeviceCommunicator(Abortable, DeviceCommunicator):
    """Device collectives and transfers of one rank."""

    __slots__ = ("_group", "_together", "aborted", "journal", "places")

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.aborted = False
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)
        self.places = 1
        """So many places of the device each issue takes, where these are finite."""
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

    def occupy(self, places: int) -> None:
        self.places = whole(places, "the places", self.name, 1)

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
        try:
            on = stream.name
        except AttributeError:
            on = of_this_backend(stream, OwnStream).name  # which says what is wrong
        site = site or f"{self.name}.{issue.op}"
        if self.journal.shared.aborts:
            self.refuse_aborted(site)
        elif self.journal.turn is not None:
            self.journal.come(site)
        if self._group is not None:
            raise RuntimeError(f"{self.name}: {issue.op} within a coalesced group, which is for send and recv")
        root, rank = issue.root, self.journal.rank
        reads = ref_of(source) if root is None or root == rank else ()
        writes = ref_of(output) if root != rank else ()
        capture = stream.capture  # type: ignore[attr-defined]
        if capture is not None:
            self._refuse_unmade(issue, site, stream)
            memory = (
                CallMemory([source] if reads else [], tags=reads is not writes),
                CallMemory([output] if writes else []),
            )
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
        site = site or f"{self.name}.{issue.op}"
        if self.journal.shared.aborts:
            self.refuse_aborted(site)
        elif self.journal.turn is not None:
            self.journal.come(site)
        memory = ref_of(buffer)
        reads, writes = (memory, ()) if issue.op == "send" else ((), memory)
        if self._group is not None:
            issue = issue._replace(group=self._group)
            if stream is not self._together:
                raise ValueError(f"{self.name}: a transfer on stream {on} within a group on another stream")
        capture = stream.capture  # type: ignore[attr-defined]
        if capture is not None:
            self._refuse_unmade(issue, site, stream)
            memory_of = CallMemory([buffer] if reads else []), CallMemory([buffer] if writes else [])
            capture.transfer(self, issue, buffer, stream, site, memory_of)
            return
        self._move(self.journal.transfer(self.name, issue, on, site, reads, writes), buffer, stream)

    def unmade(self, issue: Issue) -> bool:
        """Whether the issue would be the first use of a communicator that is made then (`World.lazy`)."""
        return False

    def _refuse_unmade(self, issue: Issue, site: str, stream: Stream) -> None:
        if self.unmade(issue):
            capture = stream.capture  # type: ignore[attr-defined]
            cure = "; use it once before the capture, in a warm-up"
            capture.refuse(900, f"{site}: communicator {self.name} is made at its first use, and this is it", cure)

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
