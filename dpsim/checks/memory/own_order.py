"""Own order: whether what a rank orders by itself already orders all accesses to its memory.

A rank by itself orders: ops of one stream; a stream behind an event that it waited for; what its host issued behind
what that host read, synchronised, or found passed; and what it put on one device communicator. All that is a part of
happens-before (`dpsim.checks.happens_before`). So if every two accesses that conflict are ordered thus, each read comes
after a write and finds the tag that it expects, and all accesses of a freed buffer, but those that `record_stream`
covers, come before all writes of later buffers of its pool, there is neither a race nor a stale access.

    in_order(journal)           # True: certain. False: nothing is known.

Journals are gone through as they stand, for all that is ordered here was issued in that order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from dpsim.awaited import is_idle
from dpsim.checks.memory.touches import Point, Touches, join
from dpsim.ops import (
    ADDRESS,
    ASK_HOW,
    CALL,
    COLLECTIVE_READS,
    COLLECTIVE_SIZES,
    COLLECTIVE_WRITES,
    COMMUNICATOR,
    COUNT,
    EVENT,
    KIND,
    LAUNCH_READS,
    LAUNCH_WRITES,
    LEARNED_OUTCOME,
    READ_READS,
    STREAM,
    TRANSFER_GROUP,
    TRANSFER_READS,
    TRANSFER_WRITES,
    RawRecord,
    Ref,
    Refs,
)

Group: TypeAlias = tuple[int, list[Refs], list[Refs]]
"""A coalesced group: where its last transfer stands, and what its transfers read and write."""


def in_order(journal: list[RawRecord]) -> bool:
    """Whether all accesses to the memory of a rank are certain to be in order."""
    memory = Touches()
    streams, touch = memory.streams, memory.touch
    marks: dict[int, Point] = {}
    pending: dict[tuple[Any, ...], tuple[Point, bool]] = {}  # with whether the host has to be told that it passed
    turns: dict[str, Point] = {}
    groups: dict[int, Group] = {}
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "learned":
            if pending:
                learns = pending.pop(raw[ADDRESS], None)
                if learns is not None and (raw[LEARNED_OUTCOME] or not learns[1]):
                    memory.learn(learns[0])
        elif kind == "launch":
            stream = streams.get(raw[STREAM])
            if stream is None or stream.seen is not memory.host:
                stream = memory.stream(raw[STREAM])
            if not touch(stream, raw[LAUNCH_READS], raw[LAUNCH_WRITES]):
                return False
        elif kind == "mark":
            stream = streams.get(raw[STREAM])
            if stream is None or stream.seen is not memory.host:
                stream = memory.stream(raw[STREAM])
            marks[raw[EVENT]] = stream.clock, stream.number, stream.position
        elif kind == "wait":
            point = marks.get(raw[EVENT])
            if point is not None:
                stream = memory.stream(raw[STREAM])
                number = point[1]
                if number != stream.number and stream.clock[number] <= point[2]:  # else all that is known already
                    stream.clock = join(stream.clock, point)
        elif kind == "collective" or kind == "transfer":
            if raw[STREAM] is None:
                continue
            if kind == "collective":
                reads, writes = raw[COLLECTIVE_READS], raw[COLLECTIVE_WRITES]
                if (not raw[COUNT] or raw[COLLECTIVE_SIZES]) and is_idle(raw[CALL]):  # it has no place on a stream
                    if any(ref[1] < ref[2] for ref in (*reads, *writes)):
                        return False
                    continue
            else:
                reads, writes = raw[TRANSFER_READS], raw[TRANSFER_WRITES]
                group = raw[TRANSFER_GROUP]
                if group is not None and not _stands_apart(groups, group, at, reads, writes):
                    return False
            stream = memory.stream(raw[STREAM])
            turn = turns.get(raw[COMMUNICATOR])
            if turn is not None and turn[1] != stream.number:
                stream.clock = join(stream.clock, turn)
            if not touch(stream, reads, writes):
                return False
            turns[raw[COMMUNICATOR]] = stream.clock, stream.number, stream.position
        elif kind == "read":
            stream = memory.stream(raw[STREAM])
            if not touch(stream, raw[READ_READS], ()):
                return False
            pending[raw[ADDRESS]] = (stream.clock, stream.number, stream.position), False
        elif kind == "ask":
            point = marks.get(raw[EVENT])
            if point is not None:
                pending[raw[ADDRESS]] = point, raw[ASK_HOW] == "query"
        elif kind == "alloc":
            memory.alloc(raw)
        elif (kind == "used" and not memory.use(raw)) or (kind == "free" and not memory.free(raw)):
            return False
    return True


def _stands_apart(groups: dict[int, Group], group: int, at: int, reads: Refs, writes: Refs) -> bool:
    """Whether a transfer of a coalesced group follows at once on the one before, and touches nothing that others of the
    group touch: then it is as good as one behind the other.
    """
    last, read, written = groups.get(group, (at - 1, [], []))
    mine = (*reads, *writes)
    if last != at - 1:
        return False
    if any(_overlap(one, other) for refs in written for one in refs for other in mine) or any(
        _overlap(one, other) for refs in read for one in refs for other in writes
    ):
        return False
    groups[group] = at, [*read, reads], [*written, writes]
    return True


def _overlap(one: Ref, other: Ref) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
