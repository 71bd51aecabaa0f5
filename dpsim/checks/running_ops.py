"""Running ops: finds the op at the head of each stream of a hung run, and a cycle of ops that wait for each other.

Op A waits for op B if a rank that A needs is still executing B. `cycle` removes the ops that wait for none until only
cycles remain.

    standing = heads(run_index, walk, joint=False)      # by the heads of the streams, after a walk
    standing.cycle()                                    # [("dp", 0), ("ep", 0)]

A collective has the key (communicator, sequence number). In the key of a transfer, the name of the communicator also
contains sender and receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from dpsim.checks.happens_before.points import Signal
from dpsim.checks.happens_before.streams import StreamState
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import CALL, COMMUNICATOR, KIND, OP, SEQ, STREAM, TRANSFER_PEER, RawRecord
from dpsim.contract.rules.wait_set import awaited

Key: TypeAlias = tuple[str, int]
"""(communicator, sequence number) of a collective. For a transfer, the communicator's name contains both ranks."""


@dataclass
class RunningOps:
    """The ops that devices execute at the end of a run.

    `executing[x]` lists the ranks that execute x, and `needed[x]` the ranks that they need. `behind[x][rank]` is the op
    that a needed rank has to complete before x.
    """

    executing: dict[Key, list[int]] = field(default_factory=dict)
    needed: dict[Key, set[int]] = field(default_factory=dict)
    behind: dict[Key, dict[int, Key]] = field(default_factory=dict)

    def add_rank(self, key: Key, rank: int, needs: Sequence[int]) -> None:
        """Notes that a rank executes op `key` and needs the ranks `needs`."""
        self.executing.setdefault(key, []).append(rank)
        self.needed.setdefault(key, set()).update(needs)

    def wait(self, key: Key, rank: int, other: Key | None) -> None:
        """Notes that a rank reaches op `key` only after `other`. It has an effect only if a rank in `key` needs this
        rank.
        """
        if other is not None and other != key and rank in self.needed.get(key, ()):
            self.behind.setdefault(key, {}).setdefault(rank, other)

    def cycle(self) -> list[Key]:
        """Returns ops that each wait for the next, and the last one for the first. Empty if there is no cycle."""
        waits = {key: dict.fromkeys(self.behind.get(key, {}).values()) for key in self.executing}
        left = 0
        while len(waits) != left:
            left = len(waits)
            waits = {key: found for key, after in waits.items() if (found := {k: None for k in after if k in waits})}
        path = list(waits)[:1]
        while path:
            following = next(iter(waits[path[-1]]))
            if following in path:
                return path[path.index(following) :]
            path.append(following)
        return []


PARTS = (StreamState.collective, StreamState.transfer)
LINE = "{} from rank {} to {}"  # the name of a direction, in place of a communicator


def needs_of(run_index: RunIndex, raw: RawRecord, rank: int, joint: bool) -> Sequence[int]:
    """Returns the ranks that a rank's part of an op waits for. With `joint`, these are all members of a collective."""
    if raw[KIND] == "transfer":
        return (raw[TRANSFER_PEER],)
    members = tuple(run_index.collectives[raw[COMMUNICATOR]])
    return members if joint else awaited(raw[CALL], rank, members)


def heads(run_index: RunIndex, walk: Walk, joint: bool) -> RunningOps:
    """Returns the ops at the heads of all streams after a walk.

    The transfers of a coalesced group have separate queues (lanes) beside their stream.
    """
    running = RunningOps()
    marks: dict[Signal, StreamState] = {}  # the stream that records each event
    later: list[tuple[Key, StreamState]] = []
    for stream in (one for host in walk.hosts for one in (*host.streams.values(), *host.lanes.values())):
        for place, (fire, _, item, _) in enumerate(stream.queue):
            if fire is StreamState.mark:
                marks[item] = stream
            elif fire in PARTS:
                key = key_of(item, stream.rank)
                if place:
                    later.append((key, stream))
                else:
                    running.add_rank(key, stream.rank, needs_of(run_index, item, stream.rank, joint))

    def keeps(stream: StreamState | None, seen: tuple[StreamState, ...] = ()) -> Key | None:
        """Returns the op of the same rank that a stream waits for, directly or through events."""
        if stream is None or stream in seen or not stream.queue:
            return None
        fire, _, item, _ = stream.queue[0]
        if fire is StreamState.wait:
            return keeps(marks.get(item), (*seen, stream))
        return key_of(item, stream.rank) if fire in PARTS else None

    for key, stream in later:
        running.wait(key, stream.rank, keeps(stream))
    for host in walk.hosts:  # a host that waits for its device has not issued its next ops
        reading = [last.raw[STREAM] for last in run_index.living(host.rank) if last.raw[KIND] == "read"]
        for stream, (communicator, seq) in product(reading, running.executing):
            calls = run_index.collectives.get(communicator, {}).get(host.rank)
            if calls is not None and len(calls) <= seq:
                running.wait((communicator, seq), host.rank, keeps(host.streams[stream]))
    return running


def key_of(raw: RawRecord, rank: int) -> Key:
    """Returns the key of a collective or transfer."""
    if raw[KIND] == "collective":
        return raw[COMMUNICATOR], raw[SEQ]
    ends = (rank, raw[TRANSFER_PEER]) if raw[OP] == "send" else (raw[TRANSFER_PEER], rank)
    return LINE.format(raw[COMMUNICATOR], *ends), raw[SEQ]


def entry_of(run_index: RunIndex, key: Key, rank: int) -> Entry | None:
    """Returns a rank's call of a collective or transfer; None if the rank has not issued it."""
    if key[0] in run_index.collectives:
        calls = run_index.collectives[key[0]][rank]
    else:
        way, line = next((way, line) for way, line in run_index.transfers.items() if LINE.format(*way) == key[0])
        calls = line.sends if rank == way[1] else line.receives
    return calls[key[1]] if key[1] < len(calls) else None


def name_of(key: Key) -> str:
    return f"{key[0]} #{key[1]}"
