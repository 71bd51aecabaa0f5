"""The calls that a capture keeps, and how a replay makes each of them again.

A call that a capture keeps has the fields of its record, except those that differ in each replay. These are sequence
numbers, ordinals, and the numbers of events and memory. Its method `again` writes the record of a replay. On a backend
that issues kept calls one by one, `again` also issues it. A CUDA device has already launched the whole graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.graphs.replaying import CallMemory, Communicator, Names, Replaying, Target
from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.journal.graph_records import Row
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.pools import PoolMemory
from dpsim.contract.interface import Buffer


class KeptCall(ABC):
    """One kept call. `stream`: its stream in the capture."""

    __slots__ = ("site", "stream", "where")

    size = 1
    """The number of its records in a replay, without allocs and frees."""

    def __init__(self, stream: str, site: str, where: str) -> None:
        self.stream = stream
        self.site = site
        self.where = where

    @abstractmethod
    def again(self, replay: Replaying) -> None:
        """Makes the call once more, in a replay."""

    def row(self, names: Names) -> Row | None:
        """Returns its record, if replays differ only in sequence numbers and ordinals; else None."""
        return None


class KeptLaunch(KeptCall):
    """A kernel launch."""

    __slots__ = ("call", "delay", "memory")

    def __init__(
        self, stream: str, site: str, where: str, memory: tuple[CallMemory, CallMemory], call: KernelCall, delay: int
    ) -> None:
        super().__init__(stream, site, where)
        self.memory = memory
        self.call = call
        self.delay = delay

    def again(self, replay: Replaying) -> None:
        journal, (reads, writes) = replay.journal, self.memory
        read, written = reads.fixed, writes.fixed
        if read is None or written is None or writes.takes():
            read, written = reads.now(), writes.again(journal)
        journal.again("launch", self.site, self.where, (replay.names[self.stream], read, written))
        if replay.issues:
            stream, call = replay.on(self.stream), self.call
            if self.delay:
                stream._spin(self.delay)
            address = journal.rank, self.site, journal.ordinal
            stream._launch(KernelCall(address, call.kernel, call.reads, call.writes, call.args, call.cost))

    def row(self, names: Names) -> Row | None:
        reads, writes = (memory.fixed for memory in self.memory)
        if reads is None or writes is None:
            return None
        return "launch", self.site, self.where, None, (names[self.stream], reads, writes)


class KeptCollective(KeptCall):
    """A device collective. `buffers`: its output and source, if a replay issues it."""

    __slots__ = ("buffers", "communicator", "issue", "memory", "places")

    def __init__(
        self,
        stream: str,
        site: str,
        where: str,
        communicator: Communicator,
        issue: Issue,
        memory: tuple[CallMemory, CallMemory],
        buffers: tuple[Buffer, Buffer] | None,
    ) -> None:
        super().__init__(stream, site, where)
        self.communicator = communicator
        self.issue = issue
        self.memory = memory
        self.buffers = buffers
        self.places = communicator.places

    def again(self, replay: Replaying) -> None:
        journal, name, (reads, writes) = replay.journal, self.communicator.name, self.memory
        read, written = reads.fixed, writes.fixed
        if read is None or written is None or writes.takes():
            read, written = reads.now(), writes.again(journal)
        form = replay.names[self.stream], name, journal.next_seq(name), *self.issue.call, read, written
        journal.again("collective", self.site, self.where, form)
        if self.buffers is not None:
            with _places(self.communicator, self.places):
                self.communicator._put([self.issue], *self.buffers, replay.on(self.stream))

    def row(self, names: Names) -> Row | None:
        reads, writes = (memory.fixed for memory in self.memory)
        if reads is None or writes is None:
            return None
        form = names[self.stream], self.communicator.name, (*self.issue.call, reads, writes)
        return "collective", self.site, self.where, self.communicator.name, form


class KeptTransfers(KeptCall):
    """A transfer, or a coalesced group of them. `moves`: site, place, issue, memory and buffer of each."""

    __slots__ = ("communicator", "grouped", "moves", "places")

    def __init__(self, stream: str, site: str, where: str, communicator: Communicator, grouped: bool) -> None:
        super().__init__(stream, site, where)
        self.communicator = communicator
        self.grouped = grouped
        self.places = communicator.places
        self.moves: list[tuple[str, str, Issue, tuple[CallMemory, CallMemory], Buffer | None]] = []

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.moves)

    def again(self, replay: Replaying) -> None:
        journal, own, name = replay.journal, self.communicator, self.communicator.name
        group = journal.number("group") if self.grouped else None
        stream = replay.on(self.stream) if replay.issues else None
        with _places(own, self.places):
            self._go_out(journal, name, stream, group, replay.names[self.stream])

    def _go_out(self, journal: Journal, name: str, stream: Target | None, group: int | None, on: str) -> None:
        own = self.communicator
        if stream is not None and self.grouped:
            own._open(stream)
        for site, where, issue, (reads, writes), buffer in self.moves:
            seq = journal.next_seq((name, issue.op, issue.peer))
            form = on, name, seq, issue.op, issue.count, issue.dtype, issue.peer, group
            journal.again("transfer", site, where, (*form, reads.now(), writes.now()))
            if stream is not None and buffer is not None:
                own._move([issue._replace(group=group)], buffer, stream)
        if stream is not None and self.grouped:
            own._close(stream)


@contextmanager
def _places(communicator: Communicator, places: int) -> Iterator[None]:
    """Lets issues occupy as many slots as they did at the capture."""
    now, communicator.places = communicator.places, places
    try:
        yield
    finally:
        communicator.places = now


class KeptMark(KeptCall):
    """The record of an event."""

    __slots__ = ()

    def again(self, replay: Replaying) -> None:
        number = replay.journal.number("event")
        event = replay.on(self.stream)._record(number, True) if replay.issues else None
        replay.marks[self] = number, event
        replay.journal.again("mark", self.site, self.where, (replay.names[self.stream], number))


class KeptWait(KeptCall):
    """A stream's wait for an event of the capture."""

    __slots__ = ("mark",)

    def __init__(self, stream: str, site: str, where: str, mark: KeptMark) -> None:
        super().__init__(stream, site, where)
        self.mark = mark

    def again(self, replay: Replaying) -> None:
        number, event = replay.marks[self.mark]
        replay.journal.again("wait", self.site, self.where, (replay.names[self.stream], number))
        if event is not None:
            replay.on(self.stream)._wait(event)


class KeptFlagWait(KeptCall):
    """A stream's wait for a flag; each replay reads the flag again."""

    __slots__ = ("delay", "flag")

    def __init__(self, stream: str, site: str, where: str, flag: JournaledFlag, delay: int) -> None:
        super().__init__(stream, site, where)
        self.flag = flag
        self.delay = delay

    def again(self, replay: Replaying) -> None:
        replay.journal.again("flag_wait", self.site, self.where, (replay.names[self.stream], self.flag.name))
        if replay.issues:
            stream = replay.on(self.stream)
            if self.delay:
                stream._spin(self.delay)
            stream._wait_flag(self.flag)

    def row(self, names: Names) -> Row | None:
        return "flag_wait", self.site, self.where, None, (names[self.stream], self.flag.name)


class KeptMemory(KeptCall):
    """A call of the graph's pool, which writes no record in a replay."""

    __slots__ = ("memory",)

    size = 0

    def __init__(self, stream: str, site: str, where: str, memory: PoolMemory) -> None:
        super().__init__(stream, site, where)
        self.memory = memory


class KeptAlloc(KeptMemory):
    """An allocation from the graph's pool. If the program freed it, each replay allocates it again."""

    __slots__ = ()

    def again(self, replay: Replaying) -> None:
        self.memory.pool.take(self.memory, replay.journal)


class KeptFree(KeptMemory):
    """A free within the capture."""

    __slots__ = ()

    def again(self, replay: Replaying) -> None:
        self.memory.pool.loose.append(self.memory)
