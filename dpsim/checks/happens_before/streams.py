"""Streams during the walk: the knowledge of each, its position, and its ops that cannot fire yet.

A host puts items on a stream. Each fires at once if it can, or later, when all items before it have fired and it can.
If the head of a stream cannot fire yet, the signal that it waits for puts the stream on the ready list.

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
"""Fires an item: gets the stream, the index of its record, and the item. Returns False if it cannot fire yet."""


Lane: TypeAlias = tuple[str, str, int]
"""A stream, a communicator, and a place in the coalesced groups of these. The transfer at that place runs there, as if
on another stream.
"""


def lane_of(raw: RawRecord, place: int) -> Lane:
    return raw[STREAM], raw[COMMUNICATOR], place


class StreamState(StreamPoint):
    """A stream: its knowledge, its position, and the items of its host that cannot fire yet."""

    __slots__ = ("meeting", "part", "queue", "seen")

    def __init__(self, meeting: WalkState, rank: int, name: str, actor: int) -> None:
        super().__init__(meeting.clocks, rank, name, actor)
        self.meeting = meeting
        self.seen = self.clock  # the knowledge of the host when it issued the last item that fired
        self.queue: deque[tuple[Fire, int, Any, Clock]] = deque()
        self.part: Signal | None = None  # the part of a collective at its head, which waits for others

    def put(self, fire: Fire, at: int, item: Any, host: Clock) -> None:
        """The host issues an item; `fire` fires it if it can."""
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
