"""Streams while a run is walked: what each knows, how far it is, and what on it cannot fire yet.

A `Signal` is a point that others may come after (an event, a send, a post, a read that a host waits for), a `Joint` a
collective of which all parts fire at once. A stream whose head cannot fire yet is told when what it waits for is set.

    stream.put(at, record, what_the_host_knows)      # fires now if it can, else when it can

The rules of what comes after what are told in `order`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from dpsim.checks.clocks import Clock
from dpsim.ops import RawRecord, Refs

if TYPE_CHECKING:
    from dpsim.checks.order import HostState, Walk


class Sink(Protocol):
    """Whoever wants to know of accesses; told in an order that agrees with happens-before."""

    def access(self, stream: StreamState, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None:
        """The op `at` of the stream's rank fires; stream.clock and stream.position are its own."""

    def placed(self, rank: int, raw: RawRecord) -> None:
        """The host gets a buffer."""

    def alloc(self, stream: StreamState, at: int, raw: RawRecord) -> None:
        """The allocator hands out memory at the stream's present end."""

    def freed(self, rank: int, buffer: int, marks: list[Signal]) -> None:
        """Memory is given back; `marks` are the ends of the streams that were named by record_stream."""


class Signal:
    """A point of the run that others may come after: unset until the walk has come to it."""

    __slots__ = ("actor", "clock", "position", "waiters")

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self.actor = self.position = 0
        self.waiters: list[HostState | StreamState] = []

    def set(self, clock: Clock, actor: int, position: int, ready: list[HostState | StreamState]) -> None:
        self.clock, self.actor, self.position = clock, actor, position
        ready.extend(self.waiters)
        self.waiters.clear()


class Joint(Signal):
    """A collective: set when the last member has come."""

    __slots__ = ("points", "streams")

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[Clock, int, int]] = []
        self.streams: list[tuple[StreamState, int, RawRecord]] = []


class StreamState:
    """A stream: what it knows, how far it is, and what its host put on it that cannot fire yet."""

    __slots__ = ("actor", "arrived", "clock", "name", "position", "queue", "rank", "seen", "walk")

    def __init__(self, walk: Walk, rank: int, name: str, actor: int) -> None:
        self.walk, self.rank, self.name, self.actor = walk, rank, name, actor
        self.clock = self.seen = walk.nothing
        self.position = 0
        self.queue: deque[tuple[int, Any, Clock]] = deque()
        self.arrived = False  # at its head, a collective that waits for others

    def put(self, at: int, item: Any, host: Clock) -> None:
        """The host issues an item: a record, or the transfers of a group."""
        if self.queue or not self._fires(at, item, host):
            self.queue.append((at, item, host))

    def go(self) -> None:
        queue = self.queue
        while queue and self._fires(*queue[0]):
            queue.popleft()

    def _fires(self, at: int, item: Any, host: Clock) -> bool:
        if host is not self.seen:
            self.seen = host
            self.clock = self.clock.join(host)
        if type(item) is Signal:
            item.set(self.clock, self.actor, self.position, self.walk.ready)
            return True
        if type(item) is list:
            return self._transfers(item)
        kind, walk = item[0], self.walk
        if kind == "launch":
            self.position += 1
            walk.sink.access(self, at, item[6], item[7])
        elif kind == "wait":
            mark = walk.marks.get((self.rank, item[6]))
            if mark is not None:
                if mark.clock is None:
                    mark.waiters.append(self)
                    return False
                if mark.actor != self.actor or not self.actor:
                    self.clock = self.clock.after(mark.clock, mark.actor, mark.position)
        elif kind == "collective":
            if self.arrived:
                return False
            joint = walk.arrive(item, (self.clock, self.actor, self.position + 1))
            if joint.clock is None:
                self.arrived = True
                joint.streams.append((self, at, item))
                return False
            for stream, head, raw in joint.streams:  # all at once: nothing may come between the parts of a joint op
                stream._joined(joint.clock, head, raw)
                stream.arrived = False
                stream.queue.popleft()
                walk.ready.append(stream)
            joint.streams.clear()
            self._joined(joint.clock, at, item)
        elif kind == "transfer":
            return self._transfers([(at, item)])
        elif kind == "read":
            self.position += 1
            walk.sink.access(self, at, item[8], ())
            learns = walk.hosts[self.rank].pending.get((item[2], item[3]))
            if learns is not None:
                learns.set(self.clock, self.actor, self.position, walk.ready)
        elif kind == "alloc":
            self.position += 1
            walk.sink.alloc(self, at, item)
        return True

    def _joined(self, clock: Clock, at: int, raw: RawRecord) -> None:
        self.clock = clock
        self.position += 1
        self.walk.sink.access(self, at, raw[14], raw[15])

    def _transfers(self, items: list[tuple[int, RawRecord]]) -> bool:
        walk, group = self.walk, items[0][1][12]
        for _, raw in items:
            if raw[8] == "send":
                signal = walk.sends[raw[6], self.rank, raw[11], raw[7]]
                if signal.clock is None:  # the first time round
                    own = self.position + 1 if group is None else self.position
                    signal.set(self.clock, self.actor, own, walk.ready)
        sources = [walk.sends[raw[6], raw[11], self.rank, raw[7]] for _, raw in items if raw[8] == "recv"]
        for signal in sources:
            if signal.clock is None:
                signal.waiters.append(self)
                return False
        before = self.clock
        for at, raw in items:
            self.position += 1
            if raw[8] == "recv":
                signal = walk.sends[raw[6], raw[11], self.rank, raw[7]]
                assert signal.clock is not None
                self.clock = before.after(signal.clock, signal.actor, signal.position)
            walk.sink.access(self, at, raw[13], raw[14], group)
        self.clock = before
        for signal in sources:
            assert signal.clock is not None
            self.clock = self.clock.after(signal.clock, signal.actor, signal.position)
        return True
