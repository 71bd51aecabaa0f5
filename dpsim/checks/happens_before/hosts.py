"""Hosts while a run is walked: what each knows, and how far its journal was walked.

A host puts ops on streams and runs ahead. It stops where it learned something that has not happened yet, and where it
was given memory that something is still under way on; the signal that it waits for brings it back.

The rules of what comes after what are told in `walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.checks.happens_before.meeting import Meeting
from dpsim.checks.happens_before.points import Signal
from dpsim.checks.happens_before.streams import StreamState
from dpsim.ops import (
    ADDRESS,
    ALLOC_PLACE,
    ASK_HOW,
    BUFFER,
    COMMUNICATOR,
    EVENT,
    KIND,
    LAUNCH_READS,
    LAUNCH_WRITES,
    LEARNED_OUTCOME,
    OP,
    RECORDS,
    SEQ,
    STREAM,
    TAKE_MAILBOX,
    TRANSFER_GROUP,
    TRANSFER_PEER,
    Place,
    RawRecord,
)

READS = {kind: cls._fields.index("reads") for kind, cls in RECORDS.items() if "reads" in cls._fields}
WRITES = {kind: cls._fields.index("writes") if "writes" in cls._fields else None for kind, cls in RECORDS.items()}
"""Where a record says what it reads and writes, by kind."""


class HostState:
    """A host: what it knows and how far its journal was walked."""

    def __init__(self, meeting: Meeting, rank: int, journal: list[RawRecord]) -> None:
        self.meeting, self.rank, self.journal = meeting, rank, journal
        self.clock = meeting.clocks.nothing
        self.at = 0
        self.streams: dict[str, StreamState] = {}
        self.pending: dict[tuple[Any, ...], Any] = {}  # address -> what the host will learn from
        self.used: dict[int, list[str]] = {}
        self.released: list[tuple[int, list[Signal]]] = []  # buffers given back whose memory is not free yet
        self.places: dict[int, Place] = {}
        self.groups: set[int] = set()

    def go(self, learns: bool = True) -> None:
        """Walk on until the host stops. `learns` False: for the op it stopped at, take over nothing."""
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
                    if learns and not self._learn(source, raw[LEARNED_OUTCOME]):
                        break
                    del self.pending[raw[ADDRESS]]
            elif (
                kind == "alloc"
                and raw[ALLOC_PLACE] is not None
                and self.released
                and self._held(raw[ALLOC_PLACE], learns)
            ):
                break
            else:
                issue = ISSUE.get(kind)
                if issue is not None:
                    issue(self, at, raw)
            at += 1
            learns = True
        self.at = at

    def straight(self) -> None:
        """The whole journal as it stands, of a host with one stream."""
        sink = self.meeting.sink
        for stream in self.streams.values():
            for at, raw in enumerate(self.journal):
                kind = raw[KIND]
                reads = READS.get(kind)
                if reads is not None:
                    if raw[STREAM] is not None:
                        writes = WRITES[kind]
                        sink.access(stream, at, raw[reads], raw[writes] if writes else ())
                elif kind == "alloc":
                    sink.placed(self.rank, raw)
                    sink.alloc(stream, at, raw)

    def _collective(self, at: int, raw: RawRecord) -> None:
        if raw[STREAM] is not None:
            self.streams[raw[STREAM]].put(StreamState.collective, at, raw, self.clock)
        else:
            self.pending[raw[ADDRESS]] = self.meeting.arrive(raw, (self.clock, 0, 0))

    def _mark(self, at: int, raw: RawRecord) -> None:
        mark = self.meeting.marks[self.rank, raw[EVENT]] = Signal()
        self.streams[raw[STREAM]].put(StreamState.mark, at, mark, self.clock)

    def _wait(self, at: int, raw: RawRecord) -> None:
        self.streams[raw[STREAM]].put(StreamState.wait, at, raw, self.clock)

    def _read(self, at: int, raw: RawRecord) -> None:
        learns = self.pending[raw[ADDRESS]] = Signal()
        self.streams[raw[STREAM]].put(StreamState.read, at, (raw, learns), self.clock)

    def _alloc(self, at: int, raw: RawRecord) -> None:
        if raw[ALLOC_PLACE] is not None:
            self.places[raw[BUFFER]] = raw[ALLOC_PLACE]
        self.meeting.sink.placed(self.rank, raw)
        self.streams[raw[STREAM]].put(StreamState.alloc, at, raw, self.clock)

    def _used(self, _: int, raw: RawRecord) -> None:
        names = self.used.setdefault(raw[BUFFER], [])
        if raw[STREAM] not in names:
            names.append(raw[STREAM])

    def _ask(self, _: int, raw: RawRecord) -> None:
        self.pending[raw[ADDRESS]] = (raw[ASK_HOW], self.meeting.marks.get((self.rank, raw[EVENT])))

    def _take(self, _: int, raw: RawRecord) -> None:
        self.pending[raw[ADDRESS]] = raw[TAKE_MAILBOX]

    def _post(self, _: int, raw: RawRecord) -> None:
        self.meeting.mail.post(self.rank, raw, self.clock, self.meeting.ready)

    def _transfer(self, at: int, raw: RawRecord) -> None:
        meeting, group = self.meeting, raw[TRANSFER_GROUP]
        if raw[STREAM] is None:
            if raw[OP] == "send":
                meeting.sends[raw[COMMUNICATOR], self.rank, raw[TRANSFER_PEER], raw[SEQ]].set(
                    self.clock, 0, 0, meeting.ready
                )
            else:
                self.pending[raw[ADDRESS]] = meeting.sends[raw[COMMUNICATOR], raw[TRANSFER_PEER], self.rank, raw[SEQ]]
        elif group is None:
            self.streams[raw[STREAM]].put(StreamState.transfers, at, [(at, raw)], self.clock)
        elif group not in self.groups:  # the first of its group: all of it goes out as one
            self.groups.add(group)
            items = [(at, raw)]
            for later in range(at + 1, len(self.journal)):
                other = self.journal[later]
                if other[KIND] == "transfer" and other[TRANSFER_GROUP] == group:
                    items.append((later, other))
                elif other[KIND] in ("transfer", "collective", "learned"):
                    break
            self.streams[raw[STREAM]].put(StreamState.transfers, at, items, self.clock)

    def _free(self, at: int, raw: RawRecord) -> None:
        buffer, marks = raw[BUFFER], []
        named = self.used.pop(buffer, None)
        if named is None:
            self.places.pop(buffer, None)
            return
        for name in named:
            if name != raw[STREAM]:
                marks.append(Signal())
                self.streams[name].put(StreamState.mark, at, marks[-1], self.clock)
        self.meeting.sink.freed(self.rank, buffer, marks)
        if buffer in self.places and any(mark.clock is None for mark in marks):
            self.released.append((buffer, marks))
        else:
            self.places.pop(buffer, None)

    def _held(self, place: Place, waits: bool) -> bool:
        """Whether memory of that place is not free before the walk has come to what record_stream named."""
        for item in list(self.released):
            segment, first, end = self.places[item[0]]
            late = [mark for mark in item[1] if mark.clock is None]
            if not late or not waits:
                self.released.remove(item)
            elif segment == place[0] and first < place[2] and place[1] < end:
                late[0].wait(self)
                return True
        return False

    def _learn(self, source: Any, outcome: Any) -> bool:
        """Take over what is known after an op that returned; False if the walk has not come to it."""
        if type(source) is str:
            return outcome is None or self._got(source, outcome)
        if type(source) is tuple:
            how, source = source
            if source is None or (how == "query" and not outcome):
                return True
        if source.clock is None:
            source.wait(self)
            return False
        self.clock = self.meeting.clocks.after(self.clock, source.clock, source.actor, source.position)
        return True

    def _got(self, box: str, message: Any) -> bool:
        """The same for a message that was taken."""
        posts = self.meeting.mail.candidates(self.rank, box, message)
        for _, _, signal in posts:
            if signal.clock is None:
                signal.wait(self)
                return False
        if posts:
            clocks = self.meeting.clocks
            self.clock = clocks.join(self.clock, clocks.common([signal.clock for _, _, signal in posts]))
            if len(posts) == 1:
                [(letters, number, _)] = posts
                letters.taken = number + 1
        return True


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
    "take": HostState._take,
    "post": HostState._post,
}
"""What a host does at a record; launches are in `go`, for they are the most."""
