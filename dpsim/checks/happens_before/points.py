"""Points of a run, the hosts and streams that wait for them, and the sinks that get accesses.

A `Signal` is a point that others may come after. It is an event, a send, a post, a member's part of a collective, or a
read. Its `set` puts the hosts and streams that wait for it on the ready list.

    signal = Signal()
    signal.wait(stream)                                  # the stream stands still
    signal.set(clock, actor, position, ready)            # and is in `ready` now

A `Sink` gets each access to memory, with its `StreamPoint`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from dpsim.checks.happens_before.clocks import Clock, Clocks
from dpsim.contract.ops import RawRecord, Refs


class Waiter(Protocol):
    """A host or a stream that stands still until a signal is set."""

    def go(self) -> None:
        """Walk on as far as possible."""


class Signal:
    """A point of the run that others may come after. The walk sets it when it reaches it."""

    __slots__ = ("actor", "clock", "position", "waiters")

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self.actor = self.position = 0
        self.waiters: list[Waiter] | None = None

    def set(self, clock: Clock, actor: int, position: int, ready: list[Waiter]) -> None:
        self.clock, self.actor, self.position = clock, actor, position
        if self.waiters is not None:
            ready.extend(self.waiters)
            self.waiters = None

    def wait(self, waiter: Waiter) -> None:
        """Put the waiter on the ready list when the signal is set."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)


class StreamPoint:
    """A stream of a rank, or a lane beside one, at its present point: its knowledge (`clock`) and its number of
    finished ops.
    """

    __slots__ = ("actor", "clock", "clocks", "name", "position", "rank")

    def __init__(self, clocks: Clocks, rank: int, name: str, actor: int) -> None:
        self.clocks, self.rank, self.name, self.actor = clocks, rank, name, actor
        self.clock = clocks.nothing
        self.position = 0


NO_MARKS: Mapping[StreamPoint, Signal] = {}


Held: TypeAlias = tuple[int, int] | None
"""An op of a host: its actor, and the position."""


class HostPoint(ABC):
    """A host at its present point, and its streams.

    A host can be an actor, too (`Walk.hosts_act`), or 0 if it is none; each of its threads is a separate actor. Its ops
    are the allocs at which the walk has not reached all points that record_stream named. `held` is the last alloc if it
    is such an op.
    """

    rank: int
    actor: int
    held: Held
    streams: Mapping[str, StreamPoint]

    @abstractmethod
    def idle(self) -> bool:
        """Whether all ops that it issued have fired."""


class Sink(Protocol):
    """A consumer of accesses. It gets them in an order that agrees with happens-before."""

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None:
        """The op `at` of the stream's rank fires; stream.clock and stream.position belong to it."""

    def placed(self, host: HostPoint, raw: RawRecord) -> None:
        """The host gets a buffer."""

    def freed(self, host: HostPoint, buffer: int, marks: Mapping[StreamPoint, Signal]) -> None:
        """The host gives memory back; `marks` are the ends of the other streams that record_stream named."""


class NullSink:
    """A sink for a walk of which the caller needs only how far it came."""

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None: ...

    def placed(self, host: HostPoint, raw: RawRecord) -> None: ...

    def freed(self, host: HostPoint, buffer: int, marks: Mapping[StreamPoint, Signal]) -> None: ...
