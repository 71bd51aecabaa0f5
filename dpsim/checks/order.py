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

    Walk(world, run, sink).go()         # sink.access(...), sink.alloc(...) in an order that agrees with happens-before

Prior art: this is message-passing trace replay as in MUST and ISP, with streams and events as further actors.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dpsim.checks.clocks import Clock
from dpsim.checks.mail import Mail
from dpsim.checks.streams import Joint, Signal, Sink, StreamState
from dpsim.ops import RawRecord
from dpsim.world import Run, World

STREAMED = frozenset({"collective", "transfer", "launch", "alloc", "read", "mark", "wait", "used"})


class HostState:
    """A host: what it knows and how far its journal was walked."""

    def __init__(self, walk: Walk, rank: int) -> None:
        self.walk, self.rank = walk, rank
        self.journal = walk.run.journals[rank]
        self.clock = walk.nothing
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
                    stream.queue.append((at, raw, self.clock))
                else:
                    if stream.seen is not self.clock:
                        stream.seen = self.clock
                        stream.clock = stream.clock.join(self.clock)
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
                self._issue(at, raw, kind)
            at += 1
            learns = True
        self.at = at

    def _issue(self, at: int, raw: RawRecord, kind: str) -> None:
        walk = self.walk
        if kind == "collective":
            if raw[5] is not None:
                self.streams[raw[5]].put(at, raw, self.clock)
            else:
                self.pending[raw[2], raw[3]] = walk.arrive(raw, (self.clock, 0, 0))
        elif kind == "transfer":
            self._transfer(at, raw)
        elif kind == "mark":
            mark = walk.marks[self.rank, raw[6]] = Signal()
            self.streams[raw[5]].put(at, mark, self.clock)
        elif kind == "read":
            self.pending[raw[2], raw[3]] = Signal()
            self.streams[raw[5]].put(at, raw, self.clock)
        elif kind == "wait":
            self.streams[raw[5]].put(at, raw, self.clock)
        elif kind == "alloc":
            if raw[9] is not None:
                self.places[raw[6]] = raw[9]
            walk.sink.placed(self.rank, raw)
            self.streams[raw[5]].put(at, raw, self.clock)
        elif kind == "used":
            names = self.used.setdefault(raw[6], [])
            if raw[5] not in names:
                names.append(raw[5])
        elif kind == "free":
            self._free(at, raw)
        elif kind == "ask":
            self.pending[raw[2], raw[3]] = (raw[5], walk.marks.get((self.rank, raw[6])))
        elif kind == "take":
            self.pending[raw[2], raw[3]] = raw[5]
        elif kind == "post":
            walk.mail.post(self.rank, raw, self.clock, walk.ready)

    def _transfer(self, at: int, raw: RawRecord) -> None:
        walk, group = self.walk, raw[12]
        if raw[5] is None:
            if raw[8] == "send":
                walk.sends[raw[6], self.rank, raw[11], raw[7]].set(self.clock, 0, 0, walk.ready)
            else:
                self.pending[raw[2], raw[3]] = walk.sends[raw[6], raw[11], self.rank, raw[7]]
        elif group is None:
            self.streams[raw[5]].put(at, raw, self.clock)
        elif group not in self.groups:  # the first of its group: all of it goes out as one
            self.groups.add(group)
            items = [(at, raw)]
            for later in range(at + 1, len(self.journal)):
                other = self.journal[later]
                if other[0] == "transfer" and other[12] == group:
                    items.append((later, other))
                elif other[0] in ("transfer", "collective", "learned"):
                    break
            self.streams[raw[5]].put(at, items, self.clock)

    def _free(self, at: int, raw: RawRecord) -> None:
        buffer, marks = raw[6], []
        for name in self.used.pop(buffer, ()):
            if name != raw[5]:
                marks.append(Signal())
                self.streams[name].put(at, marks[-1], self.clock)
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
                late[0].waiters.append(self)
                return True
        return False

    def _learn(self, source: Any, outcome: Any) -> bool:
        """Take over what is known after an op that returned; False if the walk has not come to it."""
        if isinstance(source, str):
            return outcome is None or self._take(source, outcome)
        if isinstance(source, tuple):
            how, source = source
            if source is None or (how == "query" and not outcome):
                return True
        if source.clock is None:
            source.waiters.append(self)
            return False
        self.clock = self.clock.after(source.clock, source.actor, source.position)
        return True

    def _take(self, box: str, message: Any) -> bool:
        posts = self.walk.mail.candidates(self.rank, box, message)
        for _, _, signal in posts:
            if signal.clock is None:
                signal.waiters.append(self)
                return False
        if posts:
            self.walk.mail.taken(self.rank, box, posts)
            self.clock = self.clock.join(Clock.common([signal.clock for _, _, signal in posts if signal.clock]))
        return True


class Walk:
    """All hosts and streams of a run, walked side by side."""

    def __init__(self, world: World, run: Run, sink: Sink) -> None:
        self.run, self.sink = run, sink
        self.ready: list[HostState | StreamState] = []
        self.members = {spec.name: len(spec.ranks) for spec in world.communicators}
        self.joints: dict[tuple[str, int], Joint] = {}
        self.sends: defaultdict[tuple[str, int, int, int], Signal] = defaultdict(Signal)
        self.marks: dict[tuple[int, int], Signal] = {}
        self.mail = Mail(run)
        names = [
            sorted({raw[5] for raw in journal if raw[0] in STREAMED and raw[5] is not None}) for journal in run.journals
        ]
        self.nothing = Clock.nothing(1 + sum(len(own) for own in names if len(own) > 1))
        self.hosts = [HostState(self, rank) for rank in range(len(run.journals))]
        actor = 0
        for host, own in zip(self.hosts, names, strict=True):
            for name in own:
                actor += len(own) > 1
                host.streams[name] = StreamState(self, host.rank, name, actor if len(own) > 1 else 0)

    def go(self) -> None:
        self.ready.extend(reversed(self.hosts))
        while True:
            while self.ready:
                self.ready.pop().go()
            stopped = next((host for host in self.hosts if host.at < len(host.journal)), None)
            if stopped is None:
                return
            stopped.go(learns=False)  # nothing can move: a host that went on all the same learned nothing

    def arrive(self, raw: RawRecord, point: tuple[Clock, int, int]) -> Joint:
        """A member has come to a collective."""
        key = raw[6], raw[7]
        joint = self.joints.get(key)
        if joint is None:
            joint = self.joints[key] = Joint()
        joint.points.append(point)
        if len(joint.points) == self.members[raw[6]]:
            joint.set(Clock.joint(joint.points), 0, 0, self.ready)
            joint.points.clear()
            del self.joints[key]
        return joint
