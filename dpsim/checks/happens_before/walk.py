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

from collections.abc import Callable, Sequence

from dpsim.checks.happens_before.clocks import Clocks, clocks_for
from dpsim.checks.happens_before.hosts import HostState
from dpsim.checks.happens_before.mailboxes import Mail
from dpsim.checks.happens_before.meeting import Meeting
from dpsim.checks.happens_before.points import Sink
from dpsim.checks.happens_before.streams import StreamState
from dpsim.ops import KIND, STREAM, TRANSFER_GROUP, RawRecord
from dpsim.world import Run, World

STREAMED = {"collective": 1, "transfer": 1, "launch": 1, "alloc": 1, "read": 1, "mark": 0, "wait": 0, "used": 0}
"""The records that name a stream to put something on, and how many ops of it each is."""


class Walk:
    """All hosts and streams of a run, walked side by side."""

    def __init__(
        self, world: World, run: Run, sink: Sink, clocks: Callable[[Sequence[int]], Clocks] = clocks_for
    ) -> None:
        self.finished = run.finished
        self.grouped = False
        mail = Mail()
        lengths = [self._scan(rank, journal, mail) for rank, journal in enumerate(run.journals)]
        actors = [0, *[length for own in lengths if len(own) > 1 for length in own.values()]]
        members = {spec.name: len(spec.ranks) for spec in world.communicators}
        self.meeting = Meeting(clocks(actors), sink, mail, members)
        self.hosts = [HostState(self.meeting, rank, journal) for rank, journal in enumerate(run.journals)]
        actor = 0
        for host, own in zip(self.hosts, lengths, strict=True):
            for name in own:
                actor += len(own) > 1
                host.streams[name] = StreamState(self.meeting, host.rank, name, actor if len(own) > 1 else 0)

    def go(self) -> None:
        if self.finished and all(len(host.streams) < 2 for host in self.hosts) and not self.grouped:
            for host in self.hosts:
                host.straight()
            return
        ready = self.meeting.ready
        ready.extend(reversed(self.hosts))
        while True:
            while ready:
                ready.pop().go()
            stopped = next((host for host in self.hosts if host.at < len(host.journal)), None)
            if stopped is None:
                return
            stopped.go(learns=False)  # nothing can move: a host that went on all the same learned nothing

    def _scan(self, rank: int, journal: list[RawRecord], mail: Mail) -> dict[str, int]:
        """The streams of a rank and how many ops each has; its posts and whether it has groups are noted on the way."""
        lengths: dict[str, int] = {}
        for raw in journal:
            kind = raw[KIND]
            ops = STREAMED.get(kind)
            if ops is not None:
                name = raw[STREAM]
                if name is not None:
                    lengths[name] = lengths.get(name, 0) + ops
                    if kind == "transfer" and raw[TRANSFER_GROUP] is not None:
                        self.grouped = True
            elif kind == "post":
                mail.add(rank, raw)
        return lengths
