"""Order inversion: device collectives that keep each other from starting, though every member has issued them.

Hosts run ahead of their devices, so a hang can stand between streams while every collective has all its members:

    rank 0, stream main:   all_reduce on dp, all_reduce on ep
    rank 1, stream main:   all_reduce on ep, all_reduce on dp

Rank 0's device stands in dp and comes to ep after it, rank 1's the other way round. On one stream this hangs always.
On two streams it hangs where a device cannot run both at a time, for a collective that waits for its peers occupies it
(`World.residency`; on hardware, the multiprocessors). The first is proven from the journals: what stands at the head of
each stream is known. Which collective got the device first is not, so the second is looked for only where a run stood
still and nothing else explains it, by letting each rank start its collectives in the order in which it issued them.

Either way it is a graph: a collective waits for the one that a member of it stands in. What waits for nothing unfired
drops out, and what is left has a cycle.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.happens_before.points import NullSink, Signal
from dpsim.checks.happens_before.streams import StreamState
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.run_index import Entry, RunIndex, split
from dpsim.ops import ADDRESS, COMMUNICATOR, EVENT, KIND, LEARNED_OUTCOME, SEQ, STREAM, RawRecord
from dpsim.words import ranks_text

Key: TypeAlias = tuple[str, int]
"""A collective: communicator and sequence number."""


@dataclass
class Standing:
    """Where devices stand. `behind[x][rank]` is the collective that the rank stands in and that keeps it from x."""

    stands: dict[Key, list[int]] = field(default_factory=dict)
    behind: dict[Key, dict[int, Key]] = field(default_factory=dict)

    def wait(self, key: Key, rank: int, other: Key | None) -> None:
        """A rank comes to `key` only after `other`."""
        if other is not None and other != key:
            self.behind.setdefault(key, {}).setdefault(rank, other)

    def cycle(self) -> list[Key]:
        """Collectives of which each waits for the next and the last for the first; empty if there are none."""
        waits = {key: dict.fromkeys(self.behind.get(key, {}).values()) for key in self.stands}
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


def in_streams(run_index: RunIndex) -> Finding | None:
    """Collectives in opposite order on streams: a proven hang."""
    walk = Walk(run_index.world, run_index.run, NullSink())
    walk.go()
    return _finding(run_index, _heads(run_index, walk), "")


def in_residency(run_index: RunIndex) -> Finding | None:
    """Collectives in opposite order on several streams, where each rank runs them in the order of their issue, so many
    at a time as the world allows; one, where it does not say.
    """
    room = run_index.world.residency or 1
    where = f"a device runs {room} at a time" if run_index.world.residency else "a device may not run both at a time"
    return _finding(run_index, _slots(run_index, room), f", and {where}")


def _heads(run_index: RunIndex, walk: Walk) -> Standing:
    """By the heads of the streams after a walk."""
    standing = Standing()
    marks: dict[Signal, StreamState] = {}  # where a mark is to be set
    later: list[tuple[Key, StreamState]] = []
    for stream in (stream for host in walk.hosts for stream in host.streams.values()):
        for place, (fire, _, item, _) in enumerate(stream.queue):
            if fire is StreamState.mark:
                marks[item] = stream
            elif fire is StreamState.collective:
                key = _key(item)
                if place:
                    later.append((key, stream))
                else:
                    standing.stands.setdefault(key, []).append(stream.rank)

    def keeps(stream: StreamState | None, seen: tuple[StreamState, ...] = ()) -> Key | None:
        """The collective of its rank for which a stream waits in the end."""
        if stream is None or stream in seen or not stream.queue:
            return None
        fire, _, item, _ = stream.queue[0]
        if fire is StreamState.wait:
            return keeps(marks.get(walk.meeting.marks[stream.rank, item[EVENT]]), (*seen, stream))
        return _key(item) if fire is StreamState.collective else None

    for key, stream in later:
        standing.wait(key, stream.rank, keeps(stream))
    for host in walk.hosts:  # one that waits for its device has not issued what it would issue next
        last = run_index.last(host.rank)
        if last is not None and last.raw[KIND] == "read":
            for communicator, seq in standing.stands:
                calls = run_index.collectives[communicator].get(host.rank)
                if calls is not None and len(calls) <= seq:
                    standing.wait((communicator, seq), host.rank, keeps(host.streams[last.raw[STREAM]]))
    return standing


def _slots(run_index: RunIndex, room: int) -> Standing:
    """By what is left when each rank has started its collectives in the order of their issue, `room` at a time."""
    left: list[deque[tuple[Key, str]]] = []
    over = _over(run_index)
    for rank, _ in enumerate(run_index.run.journals):
        calls = [calls[rank] for calls in run_index.collectives.values() if rank in calls]
        issued = sorted(entry.at for own in calls for entry in own if entry.raw[STREAM] is not None)
        raws = [run_index.run.journals[rank][at] for at in issued]
        left.append(deque((_key(raw), raw[STREAM]) for raw in raws if _key(raw) not in over))

    def active(rank: int) -> list[Key]:
        started: dict[str, Key] = {}
        for key, stream in left[rank]:
            if len(started) == room:
                break
            started.setdefault(stream, key)
        return list(started.values())

    ready = list(range(len(left)))
    while ready:
        for key in active(ready.pop()):
            members = run_index.collectives[key[0]]
            if all(key in active(member) for member in members):
                for member in members:
                    left[member].remove(next(item for item in left[member] if item[0] == key))
                ready.extend(members)
    standing = Standing()
    for rank, queue in enumerate(left):
        started = active(rank)
        for key in started:
            standing.stands.setdefault(key, []).append(rank)
        for key, _ in queue:
            if key not in started:
                standing.wait(key, rank, started[0])
    return standing


def _over(run_index: RunIndex) -> set[Key]:
    """Device collectives that ended for sure: a host learned of what came after them on their stream."""
    over: set[Key] = set()
    for journal in run_index.run.journals:
        points: dict[int, tuple[str, int]] = {}  # event -> stream and index of its record
        asked: dict[tuple[Any, ...], tuple[str, int]] = {}  # address of what waited -> the same
        passed: dict[str, int] = {}
        for at, raw in enumerate(journal):
            if raw[KIND] == "mark":
                points[raw[EVENT]] = raw[STREAM], at
            elif raw[KIND] == "read":
                asked[raw[ADDRESS]] = raw[STREAM], at
            elif raw[KIND] == "ask" and raw[EVENT] in points:
                asked[raw[ADDRESS]] = points[raw[EVENT]]
            elif raw[KIND] == "learned" and raw[LEARNED_OUTCOME] is not False and raw[ADDRESS] in asked:
                stream, point = asked[raw[ADDRESS]]
                passed[stream] = max(passed.get(stream, 0), point)
        over |= {
            _key(raw)
            for at, raw in enumerate(journal)
            if raw[KIND] == "collective" and raw[STREAM] is not None and at < passed.get(raw[STREAM], 0)
        }
    return over


def _finding(run_index: RunIndex, standing: Standing, where: str) -> Finding | None:
    """In words: each rank of the cycle stands in one collective and comes to another after it."""
    cycle = standing.cycle()
    if not cycle:
        return None
    said: list[tuple[list[int], Key, Key]] = []
    votes: dict[int, Key] = {}
    involved: list[Entry] = []
    for key, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        ranks = [rank for rank, other in standing.behind[key].items() if other == after]
        said.append((ranks, after, key))
        votes |= dict.fromkeys(ranks, after)
        involved += [entry for rank in ranks for one in (key, after) if (entry := _entry(run_index, one, rank))]
    said.sort()
    parted = split(votes) if len(cycle) == 2 else None
    odd = _entry(run_index, votes[parted[1][0]], parted[1][0]) if parted and parted[1] else None
    record = odd.record if odd else None
    details = []
    for ranks, key, other in said:
        entry = _entry(run_index, key, ranks[0])
        assert entry is not None
        call, waiting = entry.record, standing.stands[other]
        details.append(
            f"{ranks_text(ranks)} stand{'s' * (len(ranks) == 1)} in {call.site}[{call.ordinal}] ({_name(key)}, "
            f"stream {entry.raw[STREAM]}, step {call.step}, {call.where}) and would come to {_name(other)} after it, "
            f"in which {ranks_text(waiting)} wait{'s' * (len(waiting) == 1)}"
        )
    orders = "; ".join(f"{ranks_text(ranks)}: {_name(key)} before {_name(other)}" for ranks, key, other in said)
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
        message=f"device collectives of different groups come in opposite order{where}: {orders}",
        culprit=Culprit.of(odd.rank, record) if odd and record else None,
        position=max(map(run_index.position, involved)),
        details=tuple(details),
    )


def _key(raw: RawRecord) -> Key:
    return raw[COMMUNICATOR], raw[SEQ]


def _entry(run_index: RunIndex, key: Key, rank: int) -> Entry | None:
    """A rank's part in a collective; None if it has not issued it."""
    calls = run_index.collectives[key[0]][rank]
    return calls[key[1]] if key[1] < len(calls) else None


def _name(key: Key) -> str:
    return f"{key[0]} #{key[1]}"
