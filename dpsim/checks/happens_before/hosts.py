"""Hosts: the state of a rank's host during the walk (the pass over all journals that rebuilds happens-before).

A host enqueues ops on streams and runs ahead of them. If the host awaited the result of an op, the walk stops the host
there, and continues it when the op's signal fires. `walk` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.checks.happens_before.clocks import Clock
from dpsim.checks.happens_before.mailboxes import MailboxHistory, Posts
from dpsim.checks.happens_before.meeting import WalkState
from dpsim.checks.happens_before.points import NO_MARKS, Held, HostPoint, Signal, StreamPoint
from dpsim.checks.happens_before.streams import Fire, Lane, StreamState, lane_of
from dpsim.contract.kinds import READS, WRITES
from dpsim.contract.ops import (
    ADDRESS,
    ASK_HOW,
    BUFFER,
    CALL,
    COLLECTIVE_SIZES,
    COMMUNICATOR,
    COUNT,
    EVENT,
    KIND,
    LAUNCH_READS,
    LAUNCH_WRITES,
    LEARNED_OUTCOME,
    LOOK_NUMBER,
    LOOK_OF,
    OP,
    SEQ,
    STREAM,
    TAKE_MAILBOX,
    THREAD,
    TRANSFER_GROUP,
    TRANSFER_PEER,
    RawRecord,
)
from dpsim.contract.rules.wait_set import is_idle


class HostState(HostPoint):
    """A host: its clock (the ops that happened before its present point), and its position in its journal."""

    def __init__(self, meeting: WalkState, rank: int, journal: list[RawRecord], actor: int) -> None:
        self.meeting, self.rank, self.journal, self.actor = meeting, rank, journal, actor
        self.clock = meeting.clocks.nothing
        self.at = self.position = 0
        self.held: Held = None
        self.streams: dict[str, StreamState] = {}
        self.pending: dict[tuple[Any, ...], Any] = {}  # address -> the source of the awaited result
        self.used: dict[int, list[str]] = {}
        self.kept: list[Signal] = []  # points that streams must pass before freed memory returns to its pool
        self.marks: dict[int, Signal] = {}  # by event
        self.spread: set[str] = set()  # communicators that this rank uses on several streams
        self.turns: dict[str, tuple[StreamState, Signal]] = {}  # for these: the last stream, and its point
        self.sizes: dict[int, int] = {}  # of coalesced groups
        self.groups: dict[
            int, tuple[list[Signal], list[Signal]]
        ] = {}  # under way: the points before it, and the ends of its transfers
        self.lanes: dict[Lane, StreamState] = {}

    def go(self, posts: Posts = "wait") -> None:
        """Walks on until the host stops. `posts`: not "wait" if the walk no longer waits for the post at which the host
        stopped.
        """
        journal, streams, meeting, at = self.journal, self.streams, self.meeting, self.at
        access = meeting.sink.access
        end = len(journal)
        while at < end:
            raw = journal[at]
            kind = raw[KIND]
            if kind == "launch":
                stream = streams[raw[STREAM]]
                if stream.queue:
                    stream.queue.append((StreamState.launch, at, raw, self.clock))
                else:
                    if stream.seen is not self.clock:
                        stream.seen = self.clock
                        stream.clock = meeting.clocks.join(stream.clock, self.clock)
                    stream.position += 1
                    access(stream, at, raw[LAUNCH_READS], raw[LAUNCH_WRITES])
            elif kind == "learned":
                source = self.pending.get(raw[ADDRESS])
                if source is not None:
                    if not self._learn(source, raw[LEARNED_OUTCOME], posts):
                        break
                    del self.pending[raw[ADDRESS]]
            else:
                issue = ISSUE.get(kind)
                if issue is not None:
                    issue(self, at, raw)
            at += 1
            posts = "wait"
        self.at = at
        if at == end:
            self._end_of_journal(self.clock)

    def straight(self) -> None:
        """Reads the whole journal in its order, for a host with one stream."""
        sink = self.meeting.sink
        for stream in self.streams.values():
            for at, raw in enumerate(self.journal):
                kind = raw[KIND]
                reads = READS.get(kind)
                if reads is not None:
                    if raw[STREAM] is not None:
                        writes = WRITES.get(kind)
                        sink.access(stream, at, raw[reads], raw[writes] if writes else ())
                elif kind == "alloc":
                    sink.placed(self, raw)
                elif kind == "free":
                    sink.freed(self, raw[BUFFER], NO_MARKS)

    def _collective(self, at: int, raw: RawRecord) -> None:
        if raw[STREAM] is None:
            self.pending[raw[ADDRESS]] = self.meeting.arrive(self.rank, raw, (self.clock, 0, 0))
        elif (not raw[COUNT] or raw[COLLECTIVE_SIZES]) and is_idle(raw[CALL]):
            self.meeting.arrive(self.rank, raw, (self.clock, 0, 0))
        else:
            stream = self.streams[raw[STREAM]]
            self._put(StreamState.collective, at, raw, stream)

    def _mark(self, at: int, raw: RawRecord) -> None:
        self.marks[raw[EVENT]] = self._end(self.streams[raw[STREAM]], at)

    def _end(self, stream: StreamState, at: int) -> Signal:
        mark = Signal()
        stream.put(StreamState.mark, at, mark, self.clock)
        return mark

    def _wait(self, at: int, raw: RawRecord) -> None:
        mark = self.marks.get(raw[EVENT])
        if mark is not None:
            self.streams[raw[STREAM]].put(StreamState.wait, at, mark, self.clock)

    def _put(self, fire: Fire, at: int, raw: RawRecord, stream: StreamState) -> None:
        """Enqueues an op of a communicator on a stream."""
        if raw[COMMUNICATOR] not in self.spread:  # the order of the stream is that of the communicator
            stream.put(fire, at, raw, self.clock)
            return
        for end in self._turn(raw, stream):
            stream.put(StreamState.wait, at, end, self.clock)
        stream.put(fire, at, raw, self.clock)
        self._over(raw, stream, at)

    def _turn(self, raw: RawRecord, stream: StreamState) -> list[Signal]:
        """Returns the end of the rank's previous op on that communicator, if it is on another stream."""
        last, end = self.turns.get(raw[COMMUNICATOR], (stream, None))
        return [] if end is None or last is stream else [end]

    def _over(self, raw: RawRecord, stream: StreamState, at: int) -> None:
        """Notes that the rank has enqueued an op on that communicator."""
        if raw[COMMUNICATOR] in self.spread:
            self.turns[raw[COMMUNICATOR]] = stream, self._end(stream, at)

    def _read(self, at: int, raw: RawRecord) -> None:
        learns = self.pending[raw[ADDRESS]] = Signal()
        self.streams[raw[STREAM]].put(StreamState.read, at, (raw, learns), self.clock)

    def _alloc(self, _: int, raw: RawRecord) -> None:
        self.held = None
        if self.kept:
            self.kept = [mark for mark in self.kept if mark.clock is None]
            if self.kept:
                self.position += 1
                self.held = self.actor, self.position
                self.clock = self.meeting.clocks.after(self.clock, self.clock, self.actor, self.position)
        self.meeting.sink.placed(self, raw)

    def _used(self, _: int, raw: RawRecord) -> None:
        names = self.used.setdefault(raw[BUFFER], [])
        if raw[STREAM] not in names:
            names.append(raw[STREAM])

    def _ask(self, _: int, raw: RawRecord) -> None:
        self.pending[raw[ADDRESS]] = (raw[ASK_HOW], self.marks.get(raw[EVENT]))

    def _look(self, _: int, raw: RawRecord) -> None:
        """Handles a query of a call of the same thread. A positive result proves as much as awaiting the call."""
        source = self.pending.get((raw[THREAD], raw[LOOK_OF], raw[LOOK_NUMBER]))
        self.pending[raw[ADDRESS]] = ("query", source if isinstance(source, Signal) else None)

    def _take(self, _: int, raw: RawRecord) -> None:
        self.pending[raw[ADDRESS]] = self.meeting.mail.box(self.rank, raw[TAKE_MAILBOX])

    def _post(self, _: int, raw: RawRecord) -> None:
        self.meeting.mail.post(self.rank, raw, self.clock, self.meeting.ready)

    def _watch(self, _: int, raw: RawRecord) -> None:
        meeting = self.meeting
        meeting.mail.watches(self.rank, raw, self.clock, meeting.clocks, meeting.ready)

    def _end_of_journal(self, clock: Clock) -> None:
        meeting = self.meeting
        meeting.mail.gone(self.rank, clock, meeting.clocks, meeting.ready)

    def _transfer(self, at: int, raw: RawRecord) -> None:
        meeting, group = self.meeting, raw[TRANSFER_GROUP]
        if raw[STREAM] is None:
            if raw[OP] == "send":
                meeting.sends[raw[COMMUNICATOR], self.rank, raw[TRANSFER_PEER], raw[SEQ]].set(
                    self.clock, 0, 0, meeting.ready
                )
            else:
                self.pending[raw[ADDRESS]] = meeting.sends[raw[COMMUNICATOR], raw[TRANSFER_PEER], self.rank, raw[SEQ]]
            return
        stream = self.streams[raw[STREAM]]
        if group is None:
            self._put(StreamState.transfer, at, raw, stream)
            return
        began = self.groups.get(group)
        if began is None:
            began = self.groups[group] = [self._end(stream, at), *self._turn(raw, stream)], []
        before, ends = began
        lane = self.lanes[lane_of(raw, len(ends))]
        for end in before:
            lane.put(StreamState.wait, at, end, self.clock)
        lane.put(StreamState.transfer, at, raw, self.clock)
        ends.append(self._end(lane, at))
        if len(ends) == self.sizes[group]:
            for end in ends:
                stream.put(StreamState.wait, at, end, self.clock)
            self._over(raw, stream, at)
            del self.groups[group]

    def _free(self, at: int, raw: RawRecord) -> None:
        named = self.used.pop(raw[BUFFER], ())
        marks: dict[StreamPoint, Signal] = {}
        for name in named:
            if name != raw[STREAM]:
                stream = self.streams[name]
                mark = marks[stream] = self._end(stream, at)
                if self.actor and mark.clock is None:
                    self.kept.append(mark)
        self.meeting.sink.freed(self, raw[BUFFER], marks)

    def idle(self) -> bool:
        for stream in self.streams.values():
            if stream.queue:
                return False
        return not self.lanes or not any(lane.queue for lane in self.lanes.values())

    def _learn(self, source: Any, outcome: Any, posts: Posts) -> bool:
        """Adds what the host knows after it received a result. Returns False if the walk has not reached the source."""
        clocks = self.meeting.clocks
        if type(source) is MailboxHistory:
            if outcome is not None:
                known, late = source.take(outcome, posts, clocks)
                if late is not None:
                    late.wait(self)
                    return False
                if known is not None:
                    self.clock = clocks.join(self.clock, known)
            return True
        if type(source) is tuple:
            how, source = source
            if source is None or (how == "query" and not outcome):
                return True
        if source.clock is not None:
            self.clock = clocks.after(self.clock, source.clock, source.actor, source.position)
        elif posts == "wait":
            source.wait(self)
            return False
        return True

    def explained(self) -> bool:
        """Returns whether the host stopped at a message that the posts reached so far explain."""
        raw = self.journal[self.at]
        source = self.pending.get(raw[ADDRESS]) if raw[KIND] == "learned" else None
        return type(source) is MailboxHistory and source.explains(raw[LEARNED_OUTCOME])


ISSUE: dict[str, Callable[[HostState, int, RawRecord], None]] = {
    "collective": HostState._collective,
    "transfer": HostState._transfer,
    "mark": HostState._mark,
    "wait": HostState._wait,
    "read": HostState._read,
    "alloc": HostState._alloc,
    "used": HostState._used,
    "free": HostState._free,
    "ask": HostState._ask,
    "look": HostState._look,
    "take": HostState._take,
    "post": HostState._post,
    "injected": HostState._post,
    "watch": HostState._watch,
}
"""The function that handles a record, by kind. `HostState.go` itself handles launches, the most frequent kind."""
