"""Logical time: computes when each op of a picture begins and ends, in ticks or in the time of the run.

    move_all(threads)           # each op has begin, came and end then

An op takes one tick. An op on a stream begins when its host has issued it and the stream's previous op is over. A
collective ends one tick after the arrival of the last member that it waits for. If a member never arrives, it never
ends. If a host awaits an op, it continues when the op is over. So equal journals give equal pictures on every backend.

An op may have returned although nothing in the journals explains it: an abort ended it, or a message came from outside.
When no other thread can continue, the one of these hosts with the smallest time continues anyway. The same is true for
a stream of a rank that ended. The times are the smallest ones that obey these rules, so they do not depend on the order
of computation.

If a run has real times (`dpsim.contract.times`), they say when a thread issued each op and when it received each
result. Then times are in ns. An op ends at its recorded time, or else at the earliest time that the rules allow.

This is max-plus scheduling (Baccelli et al., Synchronization and Linearity, 1992).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.diagnose.pictures.op import DrawnOp, Follower, TimePoint


class Issues(NamedTuple):
    """A thread issues ops. Several transfers of one coalesced group begin together.

    `lane` is the stream, or None for the host. `at` is the time in ns; None for ticks.
    """

    ops: Sequence[DrawnOp]
    lane: StreamLane | None = None
    at: int | None = None


class Learns(NamedTuple):
    """A thread awaits an op, and continues when the op is over. `at` is the time in ns; None for ticks."""

    op: DrawnOp
    at: int | None = None


Move: TypeAlias = Issues | Learns


class PartsMeet:
    """A collective in which members wait for all others. `whole` is set when all have arrived."""

    __slots__ = ("left", "time", "whole")

    def __init__(self, members: int) -> None:
        self.left, self.time, self.whole = members, 0, TimePoint()

    def join(self, op: DrawnOp) -> None:
        """Adds the part of a member that waits for all."""
        self.expect(op)
        op.after.append(self.whole)

    def expect(self, op: DrawnOp) -> None:
        """Adds the part of a member for which others wait."""
        op.began.waiters.append(_Arrival(self, op))


class _Arrival(Follower):
    __slots__ = ("meeting", "op")

    def __init__(self, meeting: PartsMeet, op: DrawnOp) -> None:
        self.meeting, self.op = meeting, op

    def go(self, ready: list[Follower]) -> None:
        meeting = self.meeting
        meeting.left -= 1
        meeting.time = max(meeting.time, self.op.begin or 0)
        if not meeting.left:
            meeting.whole.set(meeting.time, ready)


class StreamLane(Follower):
    """A stream: the ops that its host issued, in order."""

    __slots__ = ("clock", "queue")

    def __init__(self) -> None:
        self.clock = 0
        self.queue: deque[tuple[Sequence[DrawnOp], int]] = deque()

    def put(self, ops: Sequence[DrawnOp], issued: int, ready: list[Follower]) -> None:
        """Adds ops that the host issues at time `issued`."""
        for op in ops:
            op.issued = issued
        self.queue.append((ops, issued))
        if len(self.queue) == 1:
            self.go(ready)

    def go(self, ready: list[Follower]) -> None:
        while self.queue:
            ops, issued = self.queue[0]
            begin = max(self.clock, issued)
            for op in ops:
                op.start(begin, ready)
            for op in ops:
                if op.over.time is None:
                    op.over.waiters.append(self)
                    return
            self.clock = max(begin, *[op.over.time or 0 for op in ops])
            self.queue.popleft()

    def pass_head(self, ready: list[Follower]) -> None:
        """Ends the first ops of the stream, although nothing explains their end."""
        ops, issued = self.queue[0]
        for op in ops:
            if op.end is None:
                op.finish(max(self.clock, issued), ready)


class ThreadMoves(Follower):
    """A host thread: the ops that it issued and awaited, in order."""

    __slots__ = ("at", "clock", "moves", "rank")

    def __init__(self, rank: int, moves: Sequence[Move]) -> None:
        self.rank, self.moves = rank, moves
        self.at = self.clock = 0

    @property
    def standing(self) -> DrawnOp | None:
        """The op that the thread waits for; None at the end of its moves."""
        move = self.moves[self.at] if self.at < len(self.moves) else None
        return move.op if isinstance(move, Learns) else None

    def go(self, ready: list[Follower]) -> None:
        moves = self.moves
        while self.at < len(moves):
            move = moves[self.at]
            if isinstance(move, Learns):
                if move.op.over.time is None:
                    move.op.over.waiters.append(self)
                    return
                self.clock = max(self.clock, move.op.over.time) if move.at is None else move.at
            else:
                self._issue(move, ready)
            self.at += 1

    def _issue(self, move: Issues, ready: list[Follower]) -> None:
        timed = move.at is not None
        self.clock = self.clock if move.at is None else move.at
        if move.lane is not None:
            move.lane.put(move.ops, self.clock, ready)
            self.clock += not timed and any(op.length for op in move.ops)
            return
        for op in move.ops:
            op.issued = self.clock
            op.start(self.clock, ready)
        after = self.moves[self.at + 1] if self.at + 1 < len(self.moves) else None
        if not timed and not (isinstance(after, Learns) and after.op is move.ops[-1]):
            self.clock += 1  # the thread does not await the op


def move_all(threads: Iterable[ThreadMoves], over: Sequence[StreamLane] = ()) -> None:
    """Gives all ops their times. Ops that never begin or never end have none. `over`: streams on which all
    ops ended.
    """
    every = [*threads]
    ready: list[Follower] = [*reversed(every)]
    while True:
        while ready:
            ready.pop().go(ready)
        standing = [one for one in every if one.standing is not None]
        if not standing:
            lanes = [lane for lane in over if lane.queue]
            if not lanes:
                return
            min(lanes, key=lambda lane: lane.clock).pass_head(ready)
            continue
        first = min(standing, key=lambda one: (one.clock, one.rank))
        op = first.standing
        assert op is not None
        op.start(first.clock, ready)
        if op.end is None:
            op.finish(first.clock, ready)
