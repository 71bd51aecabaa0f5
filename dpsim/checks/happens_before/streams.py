"""Streams: the state of a stream during the walk (the pass over all journals that rebuilds happens-before).

A host enqueues items on a stream: kernels, collectives, transfers, reads, event records and waits. An item fires (the
walk executes it) when all earlier items of the stream have fired and its conditions are met. If the first item has to
wait, it registers the stream at a signal, which later puts the stream on the ready list.

    stream.put(StreamState.launch, at, record, what_the_host_knows)

`walk` has the rules of the order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from dpsim.checks.happens_before.clocks import Clock
from dpsim.checks.happens_before.meeting import WalkState
from dpsim.checks.happens_before.points import Signal, StreamPoint
from dpsim.contract.ops import (
    COLLECTIVE_READS,
    COLLECTIVE_WRITES,
    COMMUNICATOR,
    LAUNCH_READS,
    LAUNCH_WRITES,
    OP,
    READ_READS,
    SEQ,
    STREAM,
    TRANSFER_GROUP,
    TRANSFER_PEER,
    TRANSFER_READS,
    TRANSFER_WRITES,
    RawRecord,
)

Fire: TypeAlias = "Callable[[StreamState, int, Any], bool]"
"""Fires an item, given the stream, the index of its record, and the item. Returns False if the item has to wait."""


Lane: TypeAlias = tuple[str, str, int]
"""(stream, communicator, index in a coalesced group). Each transfer of a group runs in its lane, as if on another
stream.
"""


def lane_of(raw: RawRecord, place: int) -> Lane:
    return raw[STREAM], raw[COMMUNICATOR], place


class StreamState(StreamPoint):
    """A stream: its clock, its position, and the queue of items that have not fired."""

    __slots__ = ("meeting", "part", "queue", "seen")

    def __init__(self, meeting: WalkState, rank: int, name: str, actor: int) -> None:
        super().__init__(meeting.clocks, rank, name, actor)
        self.meeting = meeting
        self.seen = self.clock  # the clock of the host when it issued the last item that fired
        self.queue: deque[tuple[Fire, int, Any, Clock]] = deque()
        self.part: Signal | None = None  # the signal of the first item, if this is a waiting collective

    def put(self, fire: Fire, at: int, item: Any, host: Clock) -> None:
        """Enqueues an item. It fires at once if it can."""
        if self.queue:
            self.queue.append((fire, at, item, host))
            return
        if host is not self.seen:
            self.seen = host
            self.clock = self.clocks.join(self.clock, host)
        if not fire(self, at, item):
            self.queue.append((fire, at, item, host))

    def go(self) -> None:
        queue = self.queue
        while queue:
            fire, at, item, host = queue[0]
            if host is not self.seen:
                self.seen = host
                self.clock = self.clocks.join(self.clock, host)
            if not fire(self, at, item):
                return
            queue.popleft()

    def launch(self, at: int, raw: RawRecord) -> bool:
        self.position += 1
        self.meeting.sink.access(self, at, raw[LAUNCH_READS], raw[LAUNCH_WRITES])
        return True

    def mark(self, _: int, signal: Signal) -> bool:
        signal.set(self.clock, self.actor, self.position, self.meeting.ready)
        return True

    def wait(self, _: int, signal: Signal) -> bool:
        if signal.clock is None:
            signal.wait(self)
            return False
        if signal.actor != self.actor or not self.actor:
            self.clock = self.clocks.after(self.clock, signal.clock, signal.actor, signal.position)
        return True

    def read(self, at: int, item: tuple[RawRecord, Signal]) -> bool:
        raw, signal = item
        self.position += 1
        self.meeting.sink.access(self, at, raw[READ_READS], ())
        signal.set(self.clock, self.actor, self.position, self.meeting.ready)
        return True

    def collective(self, at: int, raw: RawRecord) -> bool:
        part = self.part
        if part is None:
            part = self.meeting.arrive(self.rank, raw, (self.clock, self.actor, self.position))
            self.position += 1
            if raw[COLLECTIVE_READS]:  # it may read before its peers arrive
                self.meeting.sink.access(self, at, raw[COLLECTIVE_READS], ())
            if part.clock is None:
                self.part = part
                part.wait(self)
        if part.clock is None:
            return False
        self.part = None
        self.clock = part.clock
        self.meeting.sink.access(self, at, (), raw[COLLECTIVE_WRITES])
        return True

    def transfer(self, at: int, raw: RawRecord) -> bool:
        meeting = self.meeting
        if raw[OP] == "send":
            way = raw[COMMUNICATOR], self.rank, raw[TRANSFER_PEER], raw[SEQ]
            signal = meeting.sends[way]
            if signal.clock is None:
                self.position += 1
                signal.set(self.clock, self.actor, self.position, meeting.ready)
            if meeting.passed is not None and at >= meeting.passed[self.rank].get(raw[STREAM], 0):
                taken = meeting.receives[way]
                if taken.clock is None:
                    taken.wait(self)
                    return False
        else:
            way = raw[COMMUNICATOR], raw[TRANSFER_PEER], self.rank, raw[SEQ]
            signal = meeting.sends[way]
            if meeting.passed is not None:
                meeting.receives[way].set(self.clock, self.actor, self.position, meeting.ready)
            if signal.clock is None:
                signal.wait(self)
                return False
            self.position += 1
            self.clock = self.clocks.after(self.clock, signal.clock, signal.actor, signal.position)
        meeting.sink.access(self, at, raw[TRANSFER_READS], raw[TRANSFER_WRITES], raw[TRANSFER_GROUP])
        return True
