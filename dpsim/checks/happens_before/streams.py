"""Streams while a run is walked: what each knows, how far it is, and what on it cannot fire yet.

A `Signal` is a point that others may come after (an event, a send, a post, a read that a host waits for), a `Joint` a
collective of which all parts fire at once. A stream whose head cannot fire yet is told when what it waits for is set.

    stream.put(StreamState.launch, at, record, what_the_host_knows)      # fires now if it can, else when it can

The rules of what comes after what are told in `order`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dpsim.checks.happens_before.clocks import Clock, Point
from dpsim.ops import RawRecord, Refs

if TYPE_CHECKING:
    from dpsim.checks.happens_before.hosts import HostState, Walk


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
        self.waiters: list[HostState | StreamState] | None = None

    def set(self, clock: Clock, actor: int, position: int, ready: list[HostState | StreamState]) -> None:
        self.clock, self.actor, self.position = clock, actor, position
        if self.waiters is not None:
            ready.extend(self.waiters)
            self.waiters = None

    def wait(self, waiter: HostState | StreamState) -> None:
        """Tell it when the signal is set."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)


class Joint(Signal):
    """A collective: set when the last member has come."""

    __slots__ = ("points", "streams")

    def __init__(self) -> None:
        super().__init__()
        self.points: list[Point] = []
        self.streams: list[tuple[StreamState, int, RawRecord]] = []


Fire: TypeAlias = "Callable[[StreamState, int, Any], bool]"
"""How an item fires: given the stream, the index of its record, and the item. False if it cannot yet."""


class StreamState:
    """A stream: what it knows, how far it is, and what its host put on it that cannot fire yet."""

    __slots__ = ("actor", "arrived", "clock", "name", "position", "queue", "rank", "seen", "walk")

    def __init__(self, walk: Walk, rank: int, name: str, actor: int) -> None:
        self.walk, self.rank, self.name, self.actor = walk, rank, name, actor
        self.clock = self.seen = walk.clocks.nothing
        self.position = 0
        self.queue: deque[tuple[Fire, int, Any, Clock]] = deque()
        self.arrived = False  # at its head, a collective that waits for others

    def put(self, fire: Fire, at: int, item: Any, host: Clock) -> None:
        """The host issues an item; `fire` says whether it can fire, and does it if so."""
        if self.queue:
            self.queue.append((fire, at, item, host))
            return
        if host is not self.seen:
            self.seen = host
            self.clock = self.walk.clocks.join(self.clock, host)
        if not fire(self, at, item):
            self.queue.append((fire, at, item, host))

    def go(self) -> None:
        queue = self.queue
        while queue:
            fire, at, item, host = queue[0]
            if host is not self.seen:
                self.seen = host
                self.clock = self.walk.clocks.join(self.clock, host)
            if not fire(self, at, item):
                return
            queue.popleft()

    def launch(self, at: int, raw: RawRecord) -> bool:
        self.position += 1
        self.walk.sink.access(self, at, raw[6], raw[7])
        return True

    def mark(self, _: int, signal: Signal) -> bool:
        signal.set(self.clock, self.actor, self.position, self.walk.ready)
        return True

    def wait(self, _: int, raw: RawRecord) -> bool:
        walk = self.walk
        mark = walk.marks.get((self.rank, raw[6]))
        if mark is not None:
            if mark.clock is None:
                mark.wait(self)
                return False
            if mark.actor != self.actor or not self.actor:
                self.clock = walk.clocks.after(self.clock, mark.clock, mark.actor, mark.position)
        return True

    def read(self, at: int, item: tuple[RawRecord, Signal]) -> bool:
        raw, signal = item
        self.position += 1
        self.walk.sink.access(self, at, raw[8], ())
        signal.set(self.clock, self.actor, self.position, self.walk.ready)
        return True

    def alloc(self, at: int, raw: RawRecord) -> bool:
        self.position += 1
        self.walk.sink.alloc(self, at, raw)
        return True

    def collective(self, at: int, raw: RawRecord) -> bool:
        if self.arrived:
            return False
        walk = self.walk
        joint = walk.arrive(raw, (self.clock, self.actor, self.position + 1))
        if joint.clock is None:
            self.arrived = True
            joint.streams.append((self, at, raw))
            return False
        for stream, head, other in joint.streams:  # all at once: nothing may come between the parts of a joint op
            stream._joined(joint.clock, head, other)
            stream.arrived = False
            stream.queue.popleft()
            walk.ready.append(stream)
        joint.streams.clear()
        self._joined(joint.clock, at, raw)
        return True

    def _joined(self, clock: Clock, at: int, raw: RawRecord) -> None:
        self.clock = clock
        self.position += 1
        self.walk.sink.access(self, at, raw[14], raw[15])

    def transfers(self, _: int, items: list[tuple[int, RawRecord]]) -> bool:
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
                signal.wait(self)
                return False
        before = self.clock
        for at, raw in items:
            self.position += 1
            if raw[8] == "recv":
                signal = walk.sends[raw[6], raw[11], self.rank, raw[7]]
                assert signal.clock is not None
                self.clock = walk.clocks.after(before, signal.clock, signal.actor, signal.position)
            walk.sink.access(self, at, raw[13], raw[14], group)
        self.clock = before
        for signal in sources:
            assert signal.clock is not None
            self.clock = walk.clocks.after(self.clock, signal.clock, signal.actor, signal.position)
        return True
