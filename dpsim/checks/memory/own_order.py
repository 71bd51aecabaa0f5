"""Own order: a fast test whether the ops of one rank alone already order all accesses to its memory.

    in_order(journal)           # True: certain. False: unknown.
    all_in_order(journals)      # of several ranks

The test uses only orders that the rank creates by itself. Its streams order their ops, and a wait for an event orders
two streams. The host orders what it issues after a result, and its ops on one device communicator. All of this is a
part of happens-before (`dpsim.checks.happens_before`). Three conditions exclude a race and a stale access:

* This order covers each two conflicting accesses.
* Each read comes after a write, and finds the tag that it expects.
* All accesses of a freed buffer come before all writes of later buffers from its pool. An access that `record_stream`
  protects is exempt.

Most ranks of a run make the same calls with different values. The `outline` of a journal contains only what this test
reads. So a rank whose outline equals an earlier one needs no test. Comparing outlines takes a fifth of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final, TypeAlias

from dpsim.checks.memory.touches import Point, Touches, join
from dpsim.contract.kinds import MEETS, RANK_ENDS, TIMED
from dpsim.contract.ops import (
    ADDRESS,
    ALLOC_COUNT,
    ALLOC_DTYPE,
    ALLOC_PLACE,
    ASK_HOW,
    BUFFER,
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
from dpsim.contract.rules.wait_set import is_idle

Group: TypeAlias = tuple[int, list[Refs], list[Refs]]
"""A coalesced group: the index of its last transfer, and the memory that its transfers read and write."""


OUTLINED: dict[str, Callable[[RawRecord], Any]] = {
    "launch": itemgetter(KIND, STREAM, LAUNCH_READS, LAUNCH_WRITES),
    "mark": itemgetter(KIND, STREAM, EVENT),
    "wait": itemgetter(KIND, STREAM, EVENT),
    "read": itemgetter(KIND, STREAM, READ_READS, ADDRESS),
    "ask": itemgetter(KIND, EVENT, ASK_HOW, ADDRESS),
    "used": itemgetter(KIND, STREAM, BUFFER),
    "free": itemgetter(KIND, STREAM, BUFFER),
    "alloc": itemgetter(KIND, STREAM, BUFFER, ALLOC_COUNT, ALLOC_DTYPE),
}
"""The fields of a record that the test reads, by kind."""

BESIDE = RANK_ENDS | TIMED | {"post", "take", "watch", "decision", "probe", "injected", "group", "receive_any"}
"""Kinds of record that the test ignores."""

LONG: Final = 400
"""The smallest number of records for which outlines save time."""

KEPT: Final = 4
"""The number of outlines that are kept for comparison. Each is as long as its journal."""


def all_in_order(journals: Iterable[list[RawRecord]]) -> bool:
    """Returns whether all accesses to the memory of these ranks are certainly in order."""
    known: list[list[Any]] = []
    for journal in journals:
        if len(journal) >= LONG:
            outlined = outline(journal)
            if outlined in known:
                continue
            if len(known) < KEPT:
                known.append(outlined)
        if not in_order(journal):
            return False
    return True


def outline(journal: list[RawRecord]) -> list[Any]:
    """Returns all that `in_order` reads. Communicators are numbered, so their names do not matter."""
    names: dict[str, int] = {}
    outlined: list[Any] = []
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind in OUTLINED:
            outlined.append(OUTLINED[kind](raw))
            if kind == "alloc":
                outlined.append(raw[ALLOC_PLACE] is None)
        elif kind == "learned":
            outlined.append((raw[ADDRESS], not raw[LEARNED_OUTCOME]))
        elif kind in MEETS:
            if raw[STREAM] is None:
                continue
            name = names.setdefault(raw[COMMUNICATOR], len(names))
            if kind == "collective":
                outlined.append((kind, raw[STREAM], name, raw[CALL], raw[COLLECTIVE_READS], raw[COLLECTIVE_WRITES]))
            else:
                group = raw[TRANSFER_GROUP]
                place = None if group is None else (group, at)  # the transfers of a group are adjacent
                outlined.append((kind, raw[STREAM], name, place, raw[TRANSFER_READS], raw[TRANSFER_WRITES]))
        elif kind not in BESIDE:
            outlined.append(raw)
    return outlined


def in_order(journal: list[RawRecord]) -> bool:
    """Returns whether all accesses to the memory of a rank are certainly in order."""
    memory = Touches()
    streams, touch = memory.streams, memory.touch
    marks: dict[int, Point] = {}
    pending: dict[tuple[Any, ...], tuple[Point, bool]] = {}  # and whether only a positive result counts
    turns: dict[str, Point] = {}
    groups: dict[int, Group] = {}
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "learned":
            learns = pending.pop(raw[ADDRESS], None) if pending else None
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
                stream = streams.get(raw[STREAM])
                if stream is None or stream.seen is not memory.host:
                    stream = memory.stream(raw[STREAM])
                number = point[1]
                if number != stream.number and stream.clock[number] <= point[2]:  # else the clock contains it
                    stream.clock = join(stream.clock, point)
        elif kind in MEETS:
            if raw[STREAM] is None:
                continue
            if kind == "collective":
                reads, writes = raw[COLLECTIVE_READS], raw[COLLECTIVE_WRITES]
                if (not raw[COUNT] or raw[COLLECTIVE_SIZES]) and is_idle(raw[CALL]):  # it does not use a stream
                    if any(ref[1] < ref[2] for ref in (*reads, *writes)):
                        return False
                    continue
            else:
                reads, writes = raw[TRANSFER_READS], raw[TRANSFER_WRITES]
                group = raw[TRANSFER_GROUP]
                if group is not None and not _is_apart(groups, group, at, reads, writes):
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


def _is_apart(groups: dict[int, Group], group: int, at: int, reads: Refs, writes: Refs) -> bool:
    """Returns whether a transfer of a coalesced group directly follows the one before and shares no memory with the
    group.

    If all do, the test may treat the group as a sequence.
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
