"""Points: the points of a run for which hosts and streams wait during the walk, and the interface of its consumers.

The walk is the pass over all journals that rebuilds happens-before. A `Signal` is a record that a host or a stream
waits for. Examples are an event, a send, a message to a mailbox, a read of device memory, and a member's part of a
collective. When the walk reaches this record, it marks the signal as complete. Then it puts all hosts and streams that
wait for the signal on the ready list.

    signal = Signal()
    signal.wait(stream)                                  # the stream stands still
    signal.set(clock, actor, position, ready)            # and is in `ready` now

A `Sink` receives every access to memory, with the stream and its present clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from dpsim.checks.happens_before.clocks import Clock, Clocks
from dpsim.contract.ops import RawRecord, Refs


class Waiter(Protocol):
    """A host or a stream that waits until a signal fires."""

    def go(self) -> None:
        """Walks on as far as possible."""


class Signal:
    """A point of the run that others wait for. `clock` is None until the walk reaches it."""

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
        """Registers a waiter that goes on the ready list when the signal fires."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)


class StreamPoint:
    """A stream of a rank, or a lane beside one, at its present point.

    `clock` contains what happened before this point, and `position` is the number of finished ops.
    """

    __slots__ = ("actor", "clock", "clocks", "name", "position", "rank")

    def __init__(self, clocks: Clocks, rank: int, name: str, actor: int) -> None:
        self.clocks, self.rank, self.name, self.actor = clocks, rank, name, actor
        self.clock = clocks.nothing
        self.position = 0


NO_MARKS: Mapping[StreamPoint, Signal] = {}


Held: TypeAlias = tuple[int, int] | None
"""An alloc of a host, as an op in clocks: its actor and its position."""


class HostPoint(ABC):
    """A host at its present point, and its streams.

    With `hosts_act`, each host thread is an actor in clocks; otherwise `actor` is 0. Its ops are allocs that happen
    while streams named by record_stream may still use freed memory. `held` is the last alloc if it is such an op.
    """

    rank: int
    actor: int
    held: Held
    streams: Mapping[str, StreamPoint]

    @abstractmethod
    def idle(self) -> bool:
        """Returns whether all ops that the host issued have executed."""


class Sink(Protocol):
    """A consumer of accesses. It receives them in an order that agrees with happens-before."""

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None:
        """Handles the execution of op `at` of the stream's rank. stream.clock and stream.position belong to this op."""

    def placed(self, host: HostPoint, raw: RawRecord) -> None:
        """Handles an allocation."""

    def freed(self, host: HostPoint, buffer: int, marks: Mapping[StreamPoint, Signal]) -> None:
        """Handles a free. `marks` are the present ends of the other streams that record_stream named."""


class NullSink:
    """Ignores all accesses, for a walk of which the caller needs only how far each stream gets."""

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None: ...

    def placed(self, host: HostPoint, raw: RawRecord) -> None: ...

    def freed(self, host: HostPoint, buffer: int, marks: Mapping[StreamPoint, Signal]) -> None: ...
