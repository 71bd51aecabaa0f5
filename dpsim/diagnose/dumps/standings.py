"""Standings: in which calls ranks stand, for whom they wait, and who waits for no rank.

    rank 0 -> rank 2 (default_pg #6)      rank 0 stands in its sixth call there, and rank 2 made five
    rank 2                                has no call that is not over: it is a root

A rank whose call all members have made waits for no rank: the work itself does not end. Ranks that wait for each other
are a circle, and then there is no root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.partings import shift

LATE = 200
"""Calls of a rank, from its last one, among which another one's is looked for."""


class DumpWait(NamedTuple):
    """A call that is not over. `absent`: members that did not make it."""

    rank: int
    call: RecordedCall
    absent: tuple[int, ...]


class Standings(NamedTuple):
    """`waits`: by rank, its calls for which a rank is absent, the first one first. `joined`: by rank, a call that all
    members made and that is not over. `roots`: ranks for which others wait, and which wait for none. `held`: ranks
    in `joined` whose call is over at no member: it will not end. Else their recorder is only late to say so.
    """

    waits: dict[int, list[DumpWait]]
    joined: dict[int, RecordedCall]
    roots: tuple[int, ...]
    held: frozenset[int]

    @property
    def circle(self) -> tuple[int, ...]:
        """Ranks that wait for each other, each for the next one, and the last one for the first."""
        targets = {rank: own[0].absent for rank, own in self.waits.items()}
        done: set[int] = set()
        for start in targets:
            path: list[int] = []
            rank = start
            while rank in targets and rank not in done and rank not in path:
                path.append(rank)
                rank = next((one for one in targets[rank] if one in targets), -1)
            if rank in path:
                return tuple(path[path.index(rank) :])
            done.update(path)
        return ()

    def way(self, rank: int) -> tuple[int, ...]:
        """From a rank that waits to a root, or around a circle."""
        path = [rank]
        while path[-1] in self.waits:
            absent = self.waits[path[-1]][0].absent
            after = next((one for one in absent if one in self.roots), absent[0])
            path.append(after)
            if after in path[:-1]:
                break
        return tuple(path)


def standings(job: DumpedJob) -> Standings:
    """Where the ranks of a job stand."""
    last = {
        key: {rank: own[-1].seq if own else 0 for rank, own in group.calls.items()} for key, group in job.groups.items()
    }
    places = _transfer_places(job)
    waits: dict[int, list[DumpWait]] = {}
    joined: dict[int, RecordedCall] = {}
    for rank in job.calls:
        for call in job.unfinished(rank):
            if call.shape.is_transfer:
                absent = places.get(id(call), ())
            else:
                came = last[call.group]
                members = job.groups[call.group].members
                absent = tuple(one for one in members if one != rank and came.get(one, -1) < call.seq)
            if absent:
                waits.setdefault(rank, []).append(DumpWait(rank, call, absent))
            elif rank not in joined:
                joined[rank] = call
    awaited = {one for own in waits.values() for wait in own for one in wait.absent}
    held = frozenset(rank for rank, call in joined.items() if not _over_elsewhere(job, call))
    return Standings(waits, joined, tuple(sorted(awaited - {*waits})), held)


def _over_elsewhere(job: DumpedJob, call: RecordedCall) -> bool:
    calls = job.groups[call.group].calls.values()
    return any(one.over for own in calls for one in own[-LATE:] if one.seq == call.seq)


def _transfer_places(job: DumpedJob) -> Mapping[int, tuple[int, ...]]:
    """For transfers that are not over and have no other side, the rank that is absent."""
    absent = {}
    for line in job.lines.values():
        _, sender, receiver = line.key
        skip = shift(job, line)
        for calls, others, peer, ahead in (
            (line.sends, line.receives, receiver, skip),
            (line.receives, line.sends, sender, -skip),
        ):
            for at, call in enumerate(calls):
                if not call.over and at + ahead >= len(others):
                    absent[id(call)] = (peer,)
    return absent
