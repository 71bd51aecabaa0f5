"""Happens-before of a run, rebuilt from its journals: every access to memory in turn, with its clock.

The walk goes through the sequences of all hosts in parallel. A host puts ops on streams and runs ahead. An op fires
when its predecessors have fired. A host stops where it learned from an op that has not fired yet. These rules order two
ops:

* the ops of a stream follow one another. Each comes after its host issued it, so after all that the host had learned by
  then;
* a stream behind its wait for an event comes after the point of the event on the other stream;
* a member's part of a collective, matched by (communicator, seq), comes after the arrival of the members whose elements
  it gets (`awaited`). This holds on streams and between hosts. It comes after nothing else: the completion of a peer
  proves that this member arrived, and not that it completed. Each part is a separate point, and it comes after the ops
  before the parts of others;
* a receive comes after its send, matched by (communicator, pair, seq), and all ops before it, because the send has read
  the data. A send orders nothing after its receive, because it may end before that;
* each transfer of a coalesced group is on a separate lane. It comes after the ops of the stream before the group, and
  the ops of the stream behind the group come after all transfers. So a receive comes after what lay before the group of
  its send, and after that send, and after no other transfer of that group;
* an op that a rank puts on a device communicator, on any stream, comes after its earlier ops there; a group counts as
  one op;
* a host comes after each op that it learned from: a read, a host collective, a host receive, a synchronised or passed
  event;
* the take of a message comes after its post. The journal does not always determine the post; the host gets the
  knowledge that is in every explanation of its takes (`mailboxes`). A post that the walk has not reached may be behind
  this take, so the host waits for it. If nothing else can move, some host continued first, with the posts that the walk
  has reached. If only one host can have, the box had no other post; otherwise it may have had one.

* the notice that an actor is gone comes after all ops of the actor's host, and after the beginning of the watch;
* a host thread comes after its start. A thread that continues behind a flag or a join comes after the set or the end
  that released it (`threads`). A later place in the journal does not order two threads;
* a stream behind its wait for a flag comes after the set that released it, if the journal determines that set
  (`flags`).

One thing is no order. If the allocator found that `record_stream`'s events had passed, it reused a block. This orders
the old buffer's accesses before the new one's (`dpsim.checks.memory.reuse`), and nothing else, because the next run may
differ.

An op that never fires has no accesses. Examples are a part of a collective that waits for an absent member, a receive
without its send, and the later ops on their streams. If a host learned from an op that never ends by the journals, it
gets no knowledge from it.

For a rank with one stream, all this adds nothing to its journal. If no rank has two streams, and all finished, all
issued ops have fired. Then the walk reads the journals as they are.

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
"""The records that put work on a stream, and how many ops of the stream each is."""

NOTED = STREAMED | {"post": -1, "injected": -1, "thread": -2, "watch": -3}
"""These, and the other records that the walk needs."""


class Walk:
    """A walk through all hosts and streams of a run, in parallel."""

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
        """`joint` and `passed`: to find where each stream would stand, all members of a collective wait for all, and
        sends wait for their receivers (`meeting.WalkState`). `hosts_act`: hosts are actors, too; this is expensive, and
        seldom necessary.
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
            if len(able) == 1:  # this host was the first to continue, with the posts in its box
                able[0].go("there")
            else:
                (able or stopped)[0].go("any")


class _Scan(NamedTuple):
    """Facts of a rank before the walk. `lengths`: the number of ops of each stream and lane. `groups`: the number of
    transfers of each coalesced group. `uses`: the streams of each communicator. `threaded`: the rank started host
    threads, or its streams wait for flags.
    """

    lengths: dict[str | Lane, int]
    groups: dict[int, int]
    uses: dict[str, set[str]]
    threaded: bool


def _scan(rank: int, journal: list[RawRecord], mail: MailOrder) -> _Scan:
    """Collects these facts, and registers posts."""
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
    """The number of allocs of each thread."""
    if threaded:
        return Counter([raw[THREAD] for raw in journal if raw[KIND] == "alloc"])
    return {MAIN: [raw[KIND] for raw in journal].count("alloc")}
