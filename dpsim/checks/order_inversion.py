"""Order inversion: device collectives that keep each other from starting, though every member has issued them.

Hosts run ahead of their devices, so a hang can stand between streams while every collective has all its members:

    rank 0, stream main:   all_reduce on dp, all_reduce on ep
    rank 1, stream main:   all_reduce on ep, all_reduce on dp

Rank 0's device stands in dp and comes to ep after it, rank 1's the other way round. On one stream this hangs always.
On two streams it hangs where a device cannot run both at a time, for a collective that waits for its peers occupies it
(`World.residency`; on hardware, the multiprocessors). The first is proven from the journals: what stands at the head of
each stream is known. Which collective got the device first is not, so the second is looked for only where a run stood
still and nothing else explains it, by letting each rank start its collectives in the order in which it issued them.

Either way it is a graph: a collective waits for the one that a member of it stands in, if somebody in it needs that
member. What waits for nothing unfired drops out, and what is left has a cycle.

Members need not wait for all (`dpsim.contract.rules.wait_set`), and the journals do not say whether they did.
What stands still without that is a proof. That each waits for all is looked at only where nothing else explains a hang.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, TypeAlias

from dpsim.checks.finding import Finding
from dpsim.checks.happens_before.points import NullSink, Signal
from dpsim.checks.happens_before.streams import StreamState
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.run_index import Entry, RunIndex, split
from dpsim.checks.stuck import passed_on_streams
from dpsim.contract.ops import CALL, COMMUNICATOR, KIND, OP, SEQ, STREAM, TRANSFER_PEER, RawRecord
from dpsim.contract.rules.wait_set import awaited
from dpsim.contract.words import counted, ranks_text

Key: TypeAlias = tuple[str, int]
"""A collective: communicator and sequence number. Or a transfer: communicator with both ends, and number."""


class DevicePart(NamedTuple):
    """A rank's part in a collective, on its stream, and whom it waits for."""

    key: Key
    stream: str
    needs: Sequence[int]


@dataclass
class Standing:
    """Where devices stand. `behind[x][rank]` is the collective that the rank stands in and that keeps it from x, where
    somebody needs it: `needed[x]`.
    """

    stands: dict[Key, list[int]] = field(default_factory=dict)
    needed: dict[Key, set[int]] = field(default_factory=dict)
    behind: dict[Key, dict[int, Key]] = field(default_factory=dict)

    def stand(self, key: Key, rank: int, needs: Sequence[int]) -> None:
        """A rank stands in `key` and waits for the others that it needs."""
        self.stands.setdefault(key, []).append(rank)
        self.needed.setdefault(key, set()).update(needs)

    def wait(self, key: Key, rank: int, other: Key | None) -> None:
        """A rank comes to `key` only after `other`. It counts where all who stand have been told, and need it."""
        if other is not None and other != key and rank in self.needed.get(key, ()):
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


def in_streams(run_index: RunIndex, joint: bool = False) -> Finding | None:
    """Collectives in opposite order on streams: a proven hang, or one if all members wait for all (`joint`)."""
    walk = Walk(run_index.world, run_index.run, NullSink(), joint=joint)
    walk.go()
    return _finding(run_index, _heads(run_index, walk, joint), JOINT if joint else "")


def in_residency(run_index: RunIndex, joint: bool = False) -> Finding | None:
    """Collectives in opposite order on several streams, where each rank runs them in the order of their issue, so many
    at a time as the world allows; one, where it does not say.
    """
    room = run_index.world.residency or 1
    where = f"a device runs {room} at a time" if run_index.world.residency else "a device may not run both at a time"
    return _finding(run_index, _slots(run_index, room, joint), f", and {where}" + (JOINT if joint else ""))


def in_places(run_index: RunIndex, joint: bool = False) -> Finding | None:
    """Collectives and transfers that wait for places of a device which others hold, as the machine saw it: whoever came
    first. A rank without a free place has not come to what another one waits for in it alone.
    """
    standing, room = Standing(), run_index.world.residency or 0
    calls = [(one, run_index.run.journals[one.rank]) for one in run_index.run.occupied if one.held]
    alone: dict[Key, int] = {}
    for one, journal in calls:
        for raw in map(journal.__getitem__, one.held):
            key, least = _key_of_any(raw, one.rank), _needs(run_index, raw, one.rank, False)
            standing.stand(key, one.rank, _needs(run_index, raw, one.rank, joint))
            if len(least) == 1:
                alone[key] = least[0]
    for one, journal in calls:
        comes = [_key_of_any(journal[at], one.rank) for at in one.waiting]
        if len(one.held) == room:
            missing = [key for key, rank in alone.items() if rank == one.rank and rank not in standing.stands[key]]
            comes += [key for key in missing if _entry(run_index, key, one.rank)]
        for key in comes:
            standing.wait(key, one.rank, _key_of_any(journal[one.held[0]], one.rank))
    return _finding(run_index, standing, f", and a device has {counted(room, 'place')}" + (JOINT if joint else ""))


JOINT = ", and all members wait for all"
LINE = "{} from rank {} to {}"  # transfers in one direction, as a collective's communicator


def _needs(run_index: RunIndex, raw: RawRecord, rank: int, joint: bool) -> Sequence[int]:
    """Whom a part waits for."""
    if raw[KIND] == "transfer":
        return (raw[TRANSFER_PEER],)
    members = tuple(run_index.collectives[raw[COMMUNICATOR]])
    return members if joint else awaited(raw[CALL], rank, members)


def _heads(run_index: RunIndex, walk: Walk, joint: bool) -> Standing:
    """By the heads of the streams after a walk."""
    standing = Standing()
    marks: dict[Signal, StreamState] = {}  # where a mark is to be set
    later: list[tuple[Key, StreamState]] = []
    for stream in (one for host in walk.hosts for one in (*host.streams.values(), *host.lanes.values())):
        for place, (fire, _, item, _) in enumerate(stream.queue):
            if fire is StreamState.mark:
                marks[item] = stream
            elif fire is StreamState.collective:
                key = _key(item)
                if place:
                    later.append((key, stream))
                else:
                    standing.stand(key, stream.rank, _needs(run_index, item, stream.rank, joint))

    def keeps(stream: StreamState | None, seen: tuple[StreamState, ...] = ()) -> Key | None:
        """The collective of its rank for which a stream waits in the end."""
        if stream is None or stream in seen or not stream.queue:
            return None
        fire, _, item, _ = stream.queue[0]
        if fire is StreamState.wait:
            return keeps(marks.get(item), (*seen, stream))
        return _key(item) if fire is StreamState.collective else None

    for key, stream in later:
        standing.wait(key, stream.rank, keeps(stream))
    for host in walk.hosts:  # one that waits for its device has not issued what it would issue next
        reading = [last.raw[STREAM] for last in run_index.living(host.rank) if last.raw[KIND] == "read"]
        for stream, (communicator, seq) in product(reading, standing.stands):
            calls = run_index.collectives[communicator].get(host.rank)
            if calls is not None and len(calls) <= seq:
                standing.wait((communicator, seq), host.rank, keeps(host.streams[stream]))
    return standing


def _slots(run_index: RunIndex, room: int, joint: bool) -> Standing:
    """By what is left when each rank has started its collectives in the order of their issue, `room` at a time."""
    left: list[list[DevicePart]] = []
    over, came = _over(run_index, joint)
    for rank, journal in enumerate(run_index.run.journals):
        calls = [calls[rank] for calls in run_index.collectives.values() if rank in calls]
        issued = sorted(entry.at for own in calls for entry in own if entry.raw[STREAM] is not None)
        parts = [
            DevicePart(_key(raw), raw[STREAM], _needs(run_index, raw, rank, joint))
            for raw in map(journal.__getitem__, issued)
        ]
        left.append([part for part in parts if (part.key, rank) not in over])

    def active(rank: int) -> list[DevicePart]:
        started: dict[str, DevicePart] = {}
        for part in left[rank]:
            if len(started) == room:
                break
            started.setdefault(part.stream, part)
        return list(started.values())

    ready = list(range(len(left)))
    while ready:
        rank = ready.pop()
        for part in active(rank):
            if rank not in came[part.key]:
                came[part.key].add(rank)
                ready.extend(run_index.collectives[part.key[0]])
            if came[part.key].issuperset(part.needs):
                left[rank].remove(part)
                ready.append(rank)
    standing = Standing()
    for rank in range(len(left)):
        for part in active(rank):
            standing.stand(part.key, rank, part.needs)
    for rank, parts in enumerate(left):
        started = active(rank)
        for part in parts:
            if part not in started:
                standing.wait(part.key, rank, started[0].key)
    return standing


def _over(run_index: RunIndex, joint: bool) -> tuple[set[tuple[Key, int]], defaultdict[Key, set[int]]]:
    """Parts of device collectives that ended for sure, with their rank: a host learned of what came after them on their
    stream, or all are known to have come whom they wait for. And who is known to have come to each.
    """
    came: defaultdict[Key, set[int]] = defaultdict(set)
    over = set()
    for rank, journal in enumerate(run_index.run.journals):
        passed = passed_on_streams(journal)
        for at, raw in enumerate(journal):
            if raw[KIND] == "collective" and raw[STREAM] is not None and at < passed.get(raw[STREAM], 0):
                over.add((_key(raw), rank))
                came[_key(raw)] |= {rank, *_needs(run_index, raw, rank, joint)}
    for key, ranks in came.items():
        for rank in ranks:
            entry = _entry(run_index, key, rank)
            if entry is not None and ranks.issuperset(_needs(run_index, entry.raw, rank, joint)):
                over.add((key, rank))
    return over, came


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
    details = []
    for ranks, key, other in said:
        entry = _entry(run_index, key, ranks[0])
        assert entry is not None
        call, waiting, within = entry.record, standing.stands[other], run_index.within(entry)
        details.append(
            f"{ranks_text(ranks)} stand{'s' * (len(ranks) == 1)} in {call.site}[{call.ordinal}] ({_name(key)}, "
            f"stream {entry.raw[STREAM]}, step {call.step}, {call.where}{within and ', ' + within}) and would come to "
            f"{_name(other)} after it, "
            f"in which {ranks_text(waiting)} wait{'s' * (len(waiting) == 1)}"
        )
    orders = "; ".join(f"{ranks_text(ranks)}: {_name(key)} before {_name(other)}" for ranks, key, other in said)
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
        message=f"device collectives of different groups come in opposite order{where}: {orders}",
        culprit=run_index.culprit(odd) if odd else None,
        position=max(map(run_index.position, involved)),
        details=tuple(details),
    )


def _key(raw: RawRecord) -> Key:
    return raw[COMMUNICATOR], raw[SEQ]


def _key_of_any(raw: RawRecord, rank: int) -> Key:
    """The same, also of a rank's part in a transfer."""
    if raw[KIND] == "collective":
        return _key(raw)
    ends = (rank, raw[TRANSFER_PEER]) if raw[OP] == "send" else (raw[TRANSFER_PEER], rank)
    return LINE.format(raw[COMMUNICATOR], *ends), raw[SEQ]


def _entry(run_index: RunIndex, key: Key, rank: int) -> Entry | None:
    """A rank's part in a collective or transfer; None if it has not issued it."""
    if key[0] in run_index.collectives:
        calls = run_index.collectives[key[0]][rank]
    else:
        way, line = next((way, line) for way, line in run_index.transfers.items() if LINE.format(*way) == key[0])
        calls = line.sends if rank == way[1] else line.receives
    return calls[key[1]] if key[1] < len(calls) else None


def _name(key: Key) -> str:
    return f"{key[0]} #{key[1]}"
