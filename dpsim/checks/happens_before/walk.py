"""Walk: goes through the journals of all ranks together, and yields every access to memory with its vector clock.

A host enqueues ops on streams and runs ahead. An op fires (the walk executes it) when its predecessors have fired. If a
host awaited a result, the walk stops the host there until the op has fired. These rules order two ops:

* the ops of a stream follow one another. Each comes after its host issued it, so after all results that the host had
  received by then;
* a stream that waited for an event comes after the record of the event on the other stream;
* a member's part of a collective, matched by (communicator, seq), comes after the arrival of the members whose data it
  needs (`awaited`). This is true on streams and between hosts. It comes after nothing else: if a peer has completed,
  this proves that this member arrived, and not that it completed;
* a receive comes after its send, matched by (communicator, pair, seq), and all ops before it, because the send has read
  the data. A send orders nothing after its receive, because it may end before that;
* each transfer of a coalesced group runs as if on a separate stream. It comes after the stream's ops before the group,
  and the stream's ops after the group come after all its transfers. So a receive comes after its send and after what
  precedes the sender's group, but after no other transfer of that group;
* an op of a rank on a device communicator comes after its earlier ops there, on whatever streams; a group counts as one
  op;
* a host comes after each op whose result it received: a read, a host collective, a host receive, a synchronised or
  completed event;
* the take of a message comes after its post. If the journal does not determine the post, the take comes after what all
  possible posts have in common (`mailboxes`);
* the notice that an actor is gone comes after all ops of the actor's host, and after the beginning of the watch;
* a host thread comes after its start, after each thread that it joined, and after the set of each flag that it waited
  for (`threads`). The order of the journal does not order two threads;
* a stream that waited for a flag comes after the set that released it, if the journal determines this set (`flags`).

The allocator reuses a block once it finds that the streams named by `record_stream` are past their marks. This orders
only the accesses of the old and the new buffer (`dpsim.checks.memory.reuse`). It orders nothing else, because the next
run may differ.

Some ops never fire: a collective with an absent member, a receive without a send, and all later ops of their streams.
The walk yields no accesses for them. If a host received a result of such an op, the result adds no order.

If no rank has two streams and all ranks finished, the journals already have the right order, and the walk yields them
as they are.

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
from dpsim.contract.kinds import ORDER, WORK
from dpsim.contract.ops import COMMUNICATOR, KIND, MAIN, STREAM, THREAD, TRANSFER_GROUP, RawRecord
from dpsim.contract.world import Run, World

STREAMED = dict.fromkeys(WORK, 1) | dict.fromkeys(ORDER, 0) | {"alloc": 0, "used": 0}
"""The kinds of record that put work on a stream, and how many ops of the stream each is."""

NOTED = STREAMED | {"post": -1, "injected": -1, "thread": -2, "watch": -3}
"""These kinds, and all others that the walk reads."""


class Walk:
    """A walk through all hosts and streams of a run."""

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
        """Prepares a walk.

        `joint` and `passed` add optional waits, to find where a hung run may block (`meeting.WalkState`). With them,
        members of a collective wait for all, and sends wait for their receivers. `hosts_act` makes host threads actors
        in clocks, which is expensive and seldom necessary.
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
            if len(able) == 1:  # this host continued first, and its box had no other posts
                able[0].go("there")
            else:
                (able or stopped)[0].go("any")


class _Scan(NamedTuple):
    """Facts about a rank, collected before the walk.

    `lengths`: the number of ops of each stream and lane. `groups`: the number of transfers of each coalesced group.
    `uses`: the streams on which each communicator is used. `threaded`: the rank started host threads, or a stream waits
    for a flag.
    """

    lengths: dict[str | Lane, int]
    groups: dict[int, int]
    uses: dict[str, set[str]]
    threaded: bool


def _scan(rank: int, journal: list[RawRecord], mail: MailOrder) -> _Scan:
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
    if threaded:
        return Counter([raw[THREAD] for raw in journal if raw[KIND] == "alloc"])
    return {MAIN: [raw[KIND] for raw in journal].count("alloc")}
