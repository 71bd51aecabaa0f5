"""When each op of a run begins and ends: in logical time, or in that of the run.

    move_all(threads)           # each op has begin, came and end then

An op is a tick. An op on a stream begins when its host has issued it and the op before it on the stream is over. A
collective ends a tick after the last member came that it waits for, and never if a member does not come. A host goes on
with what it learned from an op when that op is over. So equal journals have equal times, whatever machine made them.

A journal may say that an op returned though nothing of the journal lets it: an abort ended it, or a message came from
outside. Where nothing else can move, the earliest host of these goes on. So does a stream of a rank that ended.

The times are the least ones that keep all these rules. So they do not depend on the order in which threads are moved.
A run in time says when a thread issued an op, and when it learned something (`dpsim.contract.times`). Then the clock of
a thread shows these times, in ns. An op has its own end where the run has it, otherwise the earliest one that the rules
allow.

This is max-plus scheduling (Baccelli et al., Synchronization and Linearity, 1992).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.diagnose.pictures.op import DrawnOp, Follower, TimePoint


class Issues(NamedTuple):
    """A thread issues ops. Several begin together: transfers of one coalesced group. `lane`: of a stream, or None.
    `at`: when, in ns; None for ticks.
    """

    ops: Sequence[DrawnOp]
    lane: StreamLane | None = None
    at: int | None = None


class Learns(NamedTuple):
    """A thread goes on when the op is over. `at`: when, in ns; None for ticks."""

    op: DrawnOp
    at: int | None = None


Move: TypeAlias = Issues | Learns


class PartsMeet:
    """A collective of which each member waits for all: `whole` is set when all have come."""

    __slots__ = ("left", "time", "whole")

    def __init__(self, members: int) -> None:
        self.left, self.time, self.whole = members, 0, TimePoint()

    def join(self, op: DrawnOp) -> None:
        """The op is the part of a member that waits for all."""
        self.expect(op)
        op.after.append(self.whole)

    def expect(self, op: DrawnOp) -> None:
        """The op is the part of a member that others wait for."""
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
    """A stream: what its host put there, in order."""

    __slots__ = ("clock", "queue")

    def __init__(self) -> None:
        self.clock = 0
        self.queue: deque[tuple[Sequence[DrawnOp], int]] = deque()

    def put(self, ops: Sequence[DrawnOp], issued: int, ready: list[Follower]) -> None:
        """The host issues them at that time."""
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
        """What the stream stands in is over all the same."""
        ops, issued = self.queue[0]
        for op in ops:
            if op.end is None:
                op.finish(max(self.clock, issued), ready)


class ThreadMoves(Follower):
    """A host thread: what it issued, and where it learned that an op is over."""

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
            self.clock += 1  # it goes on without the op


def move_all(threads: Iterable[ThreadMoves], over: Sequence[StreamLane] = ()) -> None:
    """Give all ops their times. Ops that never begin or never end have none. `over`: streams of which all ended."""
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
