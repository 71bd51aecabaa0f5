"""Happens-before of a run, rebuilt from its journals: every access to memory in turn, with the clock that it has.

The hosts' sequences are walked side by side. A host puts ops on streams and runs ahead; an op fires when what it
depends on has fired; a host stops where it learned something that has not happened yet. All that orders two ops:

* a stream's ops come one after the other, each after its host issued it, so after what the host had learned by then;
* a stream that was told to wait for an event: after the stream of the event had come to it;
* a collective is one joint point of all members, matched by (communicator, seq), on streams or between hosts;
* a receive comes after the send it is matched with (communicator, pair, seq) and all before that send. Nothing comes
  back: a send may end before it is received. Of a send in a coalesced group only what came before the group is
  taken over, and transfers of one group are in no order among themselves;
* a host that learned: a read, a host collective, a host receive, a synchronised event, an event that had passed;
* a message that was taken comes after its post. Which post that was is not always plain: a post of each sender that
  is not surely taken already and has that content may be the one. The earliest such of each sender is looked at (its
  later ones know no less), and what *all* of these knew is taken over. Only if one sender is possible are its posts
  up to there counted as taken.

Not an order: that the allocator found `record_stream`'s events passed and so reused a block. It orders the old
buffer's accesses before the new one's (`Memory.freed`), and nothing else: the next run may not be so lucky.

What never fired has no accesses: a collective that not all members joined, a receive without its send, and what comes
behind them on their streams. A host that learned from an op which by the journals never ended learned nothing of it.

Of a rank with one stream all this tells nothing that its journal does not: if no rank has two, and all finished, so
that all that was issued has fired, the journals are read as they stand.

    Walk(world, run, sink).go()         # sink.access(...), sink.alloc(...) in an order that agrees with happens-before

Prior art: this is message-passing trace replay as in MUST and ISP, with streams and events as further actors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from dpsim.checks.happens_before.clocks import Clocks, Point, clocks_for
from dpsim.checks.happens_before.mailboxes import Mail
from dpsim.checks.happens_before.streams import Joint, Signal, Sink, StreamState
from dpsim.ops import RawRecord
from dpsim.world import Run, World

STREAMED = {"collective": 1, "transfer": 1, "launch": 1, "alloc": 1, "read": 1, "mark": 0, "wait": 0, "used": 0}
"""The records that name a stream, and how many ops of it each is."""

REFS = {"launch": 6, "read": 8, "transfer": 13, "collective": 14}
"""Where a record's reads are; its writes follow, but for `read`."""


class HostState:
    """A host: what it knows and how far its journal was walked."""

    def __init__(self, walk: Walk, rank: int) -> None:
        self.walk, self.rank = walk, rank
        self.journal = walk.run.journals[rank]
        self.clock = walk.clocks.nothing
        self.at = 0
        self.streams: dict[str, StreamState] = {}
        self.pending: dict[tuple[str, int], Any] = {}  # (site, ordinal) -> what the host will learn from
        self.used: dict[int, list[str]] = {}
        self.released: list[tuple[int, list[Signal]]] = []  # buffers given back whose memory is not free yet
        self.places: dict[int, tuple[int, int, int]] = {}
        self.groups: set[int] = set()

    def go(self, learns: bool = True) -> None:
        """Walk on until the host stops. `learns` False: for the op it stopped at, take over nothing."""
        journal, streams, walk, at = self.journal, self.streams, self.walk, self.at
        access = walk.sink.access
        end = len(journal)
        while at < end:
            raw = journal[at]
            kind = raw[0]
            if kind == "launch":
                stream = streams[raw[5]]
                if stream.queue:
                    stream.queue.append((StreamState.launch, at, raw, self.clock))
                else:
                    if stream.seen is not self.clock:
                        stream.seen = self.clock
                        stream.clock = walk.clocks.join(stream.clock, self.clock)
                    stream.position += 1
                    access(stream, at, raw[6], raw[7])
            elif kind == "learned":
                source = self.pending.get((raw[2], raw[3]))
                if source is not None:
                    if learns and not self._learn(source, raw[5]):
                        break
                    del self.pending[raw[2], raw[3]]
            elif kind == "alloc" and raw[9] is not None and self.released and self._held(raw[9], learns):
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
        sink = self.walk.sink
        for stream in self.streams.values():
            for at, raw in enumerate(self.journal):
                kind = raw[0]
                refs = REFS.get(kind)
                if refs is not None:
                    if raw[5] is not None:
                        sink.access(stream, at, raw[refs], raw[refs + 1] if kind != "read" else ())
                elif kind == "alloc":
                    sink.placed(self.rank, raw)
                    sink.alloc(stream, at, raw)

    def _collective(self, at: int, raw: RawRecord) -> None:
        if raw[5] is not None:
            self.streams[raw[5]].put(StreamState.collective, at, raw, self.clock)
        else:
            self.pending[raw[2], raw[3]] = self.walk.arrive(raw, (self.clock, 0, 0))

    def _mark(self, at: int, raw: RawRecord) -> None:
        mark = self.walk.marks[self.rank, raw[6]] = Signal()
        self.streams[raw[5]].put(StreamState.mark, at, mark, self.clock)

    def _wait(self, at: int, raw: RawRecord) -> None:
        self.streams[raw[5]].put(StreamState.wait, at, raw, self.clock)

    def _read(self, at: int, raw: RawRecord) -> None:
        learns = self.pending[raw[2], raw[3]] = Signal()
        self.streams[raw[5]].put(StreamState.read, at, (raw, learns), self.clock)

    def _alloc(self, at: int, raw: RawRecord) -> None:
        if raw[9] is not None:
            self.places[raw[6]] = raw[9]
        self.walk.sink.placed(self.rank, raw)
        self.streams[raw[5]].put(StreamState.alloc, at, raw, self.clock)

    def _used(self, _: int, raw: RawRecord) -> None:
        names = self.used.setdefault(raw[6], [])
        if raw[5] not in names:
            names.append(raw[5])

    def _ask(self, _: int, raw: RawRecord) -> None:
        self.pending[raw[2], raw[3]] = (raw[5], self.walk.marks.get((self.rank, raw[6])))

    def _take(self, _: int, raw: RawRecord) -> None:
        self.pending[raw[2], raw[3]] = raw[5]

    def _post(self, _: int, raw: RawRecord) -> None:
        self.walk.mail.post(self.rank, raw, self.clock, self.walk.ready)

    def _transfer(self, at: int, raw: RawRecord) -> None:
        walk, group = self.walk, raw[12]
        if raw[5] is None:
            if raw[8] == "send":
                walk.sends[raw[6], self.rank, raw[11], raw[7]].set(self.clock, 0, 0, walk.ready)
            else:
                self.pending[raw[2], raw[3]] = walk.sends[raw[6], raw[11], self.rank, raw[7]]
        elif group is None:
            self.streams[raw[5]].put(StreamState.transfers, at, [(at, raw)], self.clock)
        elif group not in self.groups:  # the first of its group: all of it goes out as one
            self.groups.add(group)
            items = [(at, raw)]
            for later in range(at + 1, len(self.journal)):
                other = self.journal[later]
                if other[0] == "transfer" and other[12] == group:
                    items.append((later, other))
                elif other[0] in ("transfer", "collective", "learned"):
                    break
            self.streams[raw[5]].put(StreamState.transfers, at, items, self.clock)

    def _free(self, at: int, raw: RawRecord) -> None:
        buffer, marks = raw[6], []
        named = self.used.pop(buffer, None)
        if named is None:
            self.places.pop(buffer, None)
            return
        for name in named:
            if name != raw[5]:
                marks.append(Signal())
                self.streams[name].put(StreamState.mark, at, marks[-1], self.clock)
        self.walk.sink.freed(self.rank, buffer, marks)
        if buffer in self.places and any(mark.clock is None for mark in marks):
            self.released.append((buffer, marks))
        else:
            self.places.pop(buffer, None)

    def _held(self, place: tuple[int, int, int], waits: bool) -> bool:
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
        self.clock = self.walk.clocks.after(self.clock, source.clock, source.actor, source.position)
        return True

    def _got(self, box: str, message: Any) -> bool:
        """The same for a message that was taken."""
        posts = self.walk.mail.candidates(self.rank, box, message)
        for _, _, signal in posts:
            if signal.clock is None:
                signal.wait(self)
                return False
        if posts:
            clocks = self.walk.clocks
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


class Walk:
    """All hosts and streams of a run, walked side by side."""

    def __init__(
        self, world: World, run: Run, sink: Sink, clocks: Callable[[Sequence[int]], Clocks] = clocks_for
    ) -> None:
        self.run, self.sink = run, sink
        self.ready: list[HostState | StreamState] = []
        self.members = {spec.name: len(spec.ranks) for spec in world.communicators}
        self.joints: dict[tuple[str, int], Joint] = {}
        self.sends: defaultdict[tuple[str, int, int, int], Signal] = defaultdict(Signal)
        self.marks: dict[tuple[int, int], Signal] = {}
        self.mail = Mail()
        self.grouped = False
        lengths = [self._scan(rank, journal) for rank, journal in enumerate(run.journals)]
        actors = [0, *[length for own in lengths if len(own) > 1 for length in own.values()]]
        self.clocks = clocks(actors)
        self.hosts = [HostState(self, rank) for rank in range(len(run.journals))]
        actor = 0
        for host, own in zip(self.hosts, lengths, strict=True):
            for name in own:
                actor += len(own) > 1
                host.streams[name] = StreamState(self, host.rank, name, actor if len(own) > 1 else 0)

    def go(self) -> None:
        if self.run.finished and all(len(host.streams) < 2 for host in self.hosts) and not self.grouped:
            for host in self.hosts:
                host.straight()
            return
        self.ready.extend(reversed(self.hosts))
        while True:
            while self.ready:
                self.ready.pop().go()
            stopped = next((host for host in self.hosts if host.at < len(host.journal)), None)
            if stopped is None:
                return
            stopped.go(learns=False)  # nothing can move: a host that went on all the same learned nothing

    def _scan(self, rank: int, journal: list[RawRecord]) -> dict[str, int]:
        """The streams of a rank and how many ops each has; its posts and whether it has groups are noted on the way."""
        lengths: dict[str, int] = {}
        for raw in journal:
            kind = raw[0]
            ops = STREAMED.get(kind)
            if ops is not None:
                name = raw[5]
                if name is not None:
                    lengths[name] = lengths.get(name, 0) + ops
                    if kind == "transfer" and raw[12] is not None:
                        self.grouped = True
            elif kind == "post":
                self.mail.add(rank, raw)
        return lengths

    def arrive(self, raw: RawRecord, point: Point) -> Joint:
        """A member has come to a collective."""
        key = raw[6], raw[7]
        joint = self.joints.get(key)
        if joint is None:
            joint = self.joints[key] = Joint()
        joint.points.append(point)
        if len(joint.points) == self.members[raw[6]]:
            joint.set(self.clocks.joint(joint.points), 0, 0, self.ready)
            joint.points.clear()
            del self.joints[key]
        return joint
