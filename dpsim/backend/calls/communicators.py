"""Device communicators of a rank: argument checks, default sites, and the journal. A backend adds how it issues a call.

Each method of a device communicator plans an `Issue`, the call as the backend has to carry it out. It writes the call's
record, and passes the resulting issues to the backend. If a fault skips the call there are none; if a fault repeats it
there are two. The methods of collectives are in their files (`dpsim.contract.collectives`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from dpsim.backend.graphs.replaying import CallMemory
from dpsim.backend.hosts.aborting import Abortable
from dpsim.backend.hosts.arguments import check_member, check_peer, count_of
from dpsim.backend.hosts.collective_methods import take_methods
from dpsim.backend.journal.issue import Issue, plan
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import whole
from dpsim.backend.memory.buffers import OwnStream, of_this_backend, ref_of, untagged
from dpsim.contract.collectives import role
from dpsim.contract.collectives.rules import Call
from dpsim.contract.interface import Buffer, DeviceCommunicator, Stream
from dpsim.contract.world import CommunicatorSpec


class JournaledDeviceCommunicator(Abortable, DeviceCommunicator):
    """Device collectives and transfers of one rank."""

    __slots__ = ("_group", "_together", "aborted", "journal", "places")

    _root = check_member
    _count_of = count_of

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.aborted = False
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)
        self.places = 1
        """How many slots of the device each issue occupies, on a device with finitely many."""
        self._group: int | None = None
        self._together: Stream | None = None

    def send(self, buffer: Buffer, to: int, stream: Stream, *, site: str | None = None) -> None:
        to = check_peer(self, to)
        issue = plan("send", count_of(self, buffer), buffer.dtype, None, None, (), to)
        self._transfer(issue, buffer, stream, site)

    def recv(self, buffer: Buffer, source: int, stream: Stream, *, site: str | None = None) -> None:
        source = check_peer(self, source)
        issue = plan("recv", count_of(self, buffer), buffer.dtype, None, None, (), source)
        self._transfer(issue, buffer, stream, site)

    def occupy(self, places: int) -> None:
        self.places = whole(places, "the places", self.name, 1)

    def coalesced(self, stream: Stream) -> AbstractContextManager[None]:
        if self._group is not None:
            raise RuntimeError(f"{self.name}: a coalesced group is open already; end it before the next one begins")
        return self._coalesce(stream)

    @contextmanager
    def _coalesce(self, stream: Stream) -> Generator[None, None, None]:
        self._group, self._together = self.journal.number("group"), stream
        capture = of_this_backend(stream, OwnStream).capture  # a method of JournaledStream
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

    def _collective(self, call: Call, output: Buffer, source: Buffer, stream: Stream, site: str | None) -> None:
        issue = plan(*call)
        try:
            on = stream.name
        except AttributeError:
            on = of_this_backend(stream, OwnStream).name  # raises an error that names the mistake
        site = site or f"{self.name}.{issue.op}"
        if self.journal.shared.aborts:
            self.refuse_aborted(site)
        elif self.journal.turn is not None:
            self.journal.on("stream", on)
            self.journal.come(site)
        if self._group is not None:
            raise RuntimeError(
                f"{self.name}: {issue.op} within a coalesced group, which may contain only send and recv"
            )
        gives, gets = role(issue.op, issue.root, self.journal.rank)
        reads = ref_of(source) if gives else ()
        writes = ref_of(output) if gets else ()
        capture = stream.capture  # type: ignore[attr-defined]
        if capture is not None:
            self._refuse_unmade(issue, site, stream)
            memory = (
                CallMemory([source] if reads else [], tags=reads is not writes),
                CallMemory([output] if writes else []),
            )
            capture.collective(self, issue, output, source, stream, site, memory)
            return
        if reads is writes:  # in place: the collective leaves this tag
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
            self.journal.on("stream", on)
            self.journal.come(site)
        memory = ref_of(buffer)
        reads, writes = (memory, ()) if issue.op == "send" else ((), memory)
        if self._group is not None:
            issue = issue._replace(group=self._group)
            if stream is not self._together:
                raise ValueError(
                    f"{self.name}: a transfer on stream {on} within a group on another stream; "
                    "use the stream of the group"
                )
        capture = stream.capture  # type: ignore[attr-defined]
        if capture is not None:
            self._refuse_unmade(issue, site, stream)
            memory_of = CallMemory([buffer] if reads else []), CallMemory([buffer] if writes else [])
            capture.transfer(self, issue, buffer, stream, site, memory_of)
            return
        self._move(self.journal.transfer(self.name, issue, on, site, reads, writes), buffer, stream)

    def unmade(self, issue: Issue) -> bool:
        """Whether the issue would be the first use of a communicator that ranks make at first use (`World.lazy`)."""
        return False

    def _refuse_unmade(self, issue: Issue, site: str, stream: Stream) -> None:
        if self.unmade(issue):
            capture = stream.capture  # type: ignore[attr-defined]
            cure = "; use it once before the capture, in a warm-up"
            capture.refuse(900, f"{site}: communicator {self.name} is made at its first use, and this is it", cure)

    @abstractmethod
    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        """Puts each issue on the stream, in order. It reads `source` and writes `output`; they may be one buffer."""

    @abstractmethod
    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        """Puts each transfer on the stream; those of an open group when the group is closed."""

    @abstractmethod
    def _open(self, stream: Stream) -> None:
        """Begins a coalesced group."""

    @abstractmethod
    def _close(self, stream: Stream) -> None:
        """Ends the coalesced group and puts it on the stream."""


take_methods(JournaledDeviceCommunicator, "on_device")
