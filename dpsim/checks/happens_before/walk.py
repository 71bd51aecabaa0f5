"""Happens-before of a run, rebuilt from its journals: every access to memory in turn, with the clock that it has.

The hosts' sequences are walked side by side. A host puts ops on streams and runs ahead; an op fires when what it
depends on has fired; a host stops where it learned something that has not happened yet. All that orders two ops:

* a stream's ops come one after the other, each after its host issued it, so after what the host had learned by then;
* a stream that was told to wait for an event: after the stream of the event had come to it;
* a member's part of a collective, matched by (communicator, seq), on streams or between hosts: after those have come
  whose elements it gets (`awaited`). That is all: a peer that is through proves that I came, not that I am through.
  Each part is a point of its own, and what a part waits for is what lay before the parts of others;
* a receive comes after the send it is matched with (communicator, pair, seq) and all before that send: what was
  received had been read. Nothing comes back: a send may end before it is received;
* transfers of one coalesced group, each on a lane of its own: after what the stream had before the group, and what
  comes behind the group on the stream after all of them. So of a send in a group its receive takes over what came
  before the group, and that send, and nothing of its fellows;
* what a rank puts on one device communicator, on whatever streams: after what it put there before, a group being one;
* a host that learned: a read, a host collective, a host receive, a synchronised event, an event that had passed;
* a message that was taken comes after its post. Which post that was is not always plain; what is taken over is what it
  knew in every explanation of what was taken (`mailboxes`). A post that the walk has not come to may be behind this
  very take, so it is waited for. Where nothing can move any more some host went on first, by what is there: if only
  one can have, then what is not there was not there, else it may have been.

* that an actor is gone, as a message to who watches it: after all that the actor's host had come to, and after the
  beginning of the watch;
* of a rank with several host threads, each comes after its start, and what goes on behind a flag or a join comes after
  what let it go on (`threads`). To come later in the journal is no order of two threads;
* a stream that was told to wait for a flag: after the set that let it go on, where it is plain which (`flags`).

Not an order: that the allocator found `record_stream`'s events passed and so reused a block. It orders the old
buffer's accesses before the new one's (`dpsim.checks.memory.reuse`), and nothing else: the next run may not be so
lucky.

What never fired has no accesses: a part of a collective to which somebody does not come for whom it waits, a receive
without its send, and what comes behind them on their streams. A host that learned from an op which by the journals
never ended learned nothing of it.

Of a rank with one stream all this tells nothing that its journal does not: if no rank has two, and all finished, so
that all that was issued has fired, the journals are read as they stand.

    Walk(world, run, sink).go()         # sink.access(...) in an order that agrees with happens-before

Prior art: this is message-passing trace replay as in MUST and ISP, with streams and events as further actors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dpsim.checks.happens_before.clocks import Clocks, clocks_for
from dpsim.checks.happens_before.hosts import HostState
from dpsim.checks.happens_before.mailboxes import MailOrder
from dpsim.checks.happens_before.meeting import WalkState
from dpsim.checks.happens_before.points import Sink
from dpsim.checks.happens_before.streams import Lane, StreamState, lane_of
from dpsim.checks.happens_before.threads import ThreadedHost
from dpsim.contract.ops import COMMUNICATOR, KIND, MAIN, STREAM, THREAD, TRANSFER_GROUP, RawRecord
from dpsim.contract.world import Run, World

STREAMED = {
    "collective": 1,
    "transfer": 1,
    "launch": 1,
    "read": 1,
    "alloc": 0,
    "mark": 0,
    "wait": 0,
    "flag_wait": 0,
    "used": 0,
}
"""The records that name a stream to put something on, and how many ops of it each is."""

NOTED = STREAMED | {"post": -1, "injected": -1, "thread": -2, "watch": -3}
"""These, and those of which one has to know besides."""


class Walk:
    """All hosts and streams of a run, walked side by side."""

    def __init__(
        self,
        world: World,
        run: Run,
        sink: Sink,
        clocks: Callable[[Sequence[int]], Clocks] = clocks_for,
        joint: bool = False,
        hosts_act: bool = False,
        passed: Sequence[Mapping[str, int]] | None = None,
    ) -> None:
        """`joint` and `passed`: to see who would stand where, all members of a collective wait for all, and sends wait
        for their receivers (`meeting.WalkState`). `hosts_act`: hosts are actors, too; dear, and seldom needed.
        """
        mail = MailOrder({rank for rank, end in enumerate(run.ends) if end == "died"})
        found = [_scan(rank, journal, mail) for rank, journal in enumerate(run.journals)]
        self.plain = run.finished and all(len(one.lengths) < 2 for one in found)
        actors = [0, *[length for one in found if len(one.lengths) > 1 for length in one.lengths.values()]]
        hosts: list[dict[str, int]] = [{} for _ in found]
        for rank, journal in enumerate(run.journals if hosts_act else ()):
            for thread, allocs in _allocs(journal, found[rank].threaded).items():
                hosts[rank][thread] = len(actors)
                actors.append(allocs)
        members = {spec.name: spec.ranks for spec in world.communicators}
        self.meeting = meeting = WalkState(clocks(actors), sink, mail, members, joint, passed)
        self.hosts = [
            ThreadedHost(meeting, rank, run.journals[rank], acting)
            if found[rank].threaded
            else HostState(meeting, rank, run.journals[rank], acting.get(MAIN, 0))
            for rank, acting in enumerate(hosts)
        ]
        actor = 0
        for host, one in zip(self.hosts, found, strict=True):
            host.sizes = one.groups
            host.spread = {name for name, streams in one.uses.items() if len(streams) > 1}
            for name in one.lengths:
                actor += len(one.lengths) > 1
                own = actor if len(one.lengths) > 1 else 0
                if isinstance(name, str):
                    host.streams[name] = StreamState(meeting, host.rank, name, own)
                else:
                    host.lanes[name] = StreamState(meeting, host.rank, name[0], own)

    def go(self) -> None:
        if self.plain:
            for host in self.hosts:
                host.straight()
            return
        ready = self.meeting.ready
        ready.extend(reversed(self.hosts))
        while True:
            while ready:
                ready.pop().go()
            stopped = [host for host in self.hosts if host.at < len(host.journal)]
            if not stopped:
                return
            able = [host for host in stopped if host.explained()]
            if len(able) == 1:  # one was the first to go on, and what let it was there
                able[0].go("there")
            else:
                (able or stopped)[0].go("any")


class _Scan(NamedTuple):
    """What is known of a rank before the walk. `lengths`: how many ops each stream and lane has. `groups`: how many
    transfers each coalesced group. `uses`: the streams of each communicator. `threaded`: it started host threads, or
    its streams wait for flags.
    """

    lengths: dict[str | Lane, int]
    groups: dict[int, int]
    uses: dict[str, set[str]]
    threaded: bool


def _scan(rank: int, journal: list[RawRecord], mail: MailOrder) -> _Scan:
    """Posts are noted on the way."""
    lengths: dict[str | Lane, int] = {}
    groups: dict[int, int] = {}
    uses: dict[str, set[str]] = {}
    threaded = False
    for raw in journal:
        kind = raw[KIND]
        ops = NOTED.get(kind)
        if ops is not None:
            if ops < 0:
                if ops == NOTED["post"]:
                    mail.add(rank, raw)
                elif ops == NOTED["watch"]:
                    mail.announce(rank, raw)
                else:
                    threaded = True
                continue
            name = raw[STREAM]
            if name is None:
                continue
            threaded = threaded or kind == "flag_wait"
            if kind == "collective" or kind == "transfer":
                streams = uses.get(raw[COMMUNICATOR])
                if streams is None:
                    streams = uses[raw[COMMUNICATOR]] = set()
                streams.add(name)
                group = raw[TRANSFER_GROUP] if kind == "transfer" else None
                if group is not None:
                    place = groups.get(group, 0)
                    groups[group] = place + 1
                    lane = lane_of(raw, place)
                    lengths[lane] = lengths.get(lane, 0) + 1
                    ops = 0
            lengths[name] = lengths.get(name, 0) + ops
    if threaded:
        mail.share(rank, journal)
    return _Scan(lengths, groups, uses, threaded)


def _allocs(journal: list[RawRecord], threaded: bool) -> dict[str, int]:
    """How many allocs each thread made."""
    if threaded:
        return Counter([raw[THREAD] for raw in journal if raw[KIND] == "alloc"])
    return {MAIN: [raw[KIND] for raw in journal].count("alloc")}
