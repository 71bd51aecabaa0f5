"""Blocked ranks: lists the calls in which ranks are blocked, the ranks that they wait for, and the ranks that wait for
none.

    rank 0 -> rank 2 (default_pg #6)      rank 0 stands in its sixth call there, and rank 2 made five
    rank 2                                has no call that is not over: it is a root

A root is a rank that others wait for and that waits for no rank. If all members have made a call and it does not end,
no rank waits for another: the operation itself hangs. If ranks wait for each other in a cycle, there is no root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.partings import shift

LATE = 200
"""The number of last calls of a rank among which the call of another rank is searched."""


class DumpWait(NamedTuple):
    """A call that is not over. `absent` are the members that did not make it."""

    rank: int
    call: RecordedCall
    absent: tuple[int, ...]


class BlockedRanks(NamedTuple):
    """Where the ranks of a job are blocked.

    `waits`: by rank, its unfinished calls with an absent rank, the first one first. `joined`: by rank, an unfinished
    call that all members made. `roots`: ranks that others wait for, and that wait for none. `held`: ranks in `joined`
    whose call is over on no member, so it hangs. On the others, the recorder only lags behind.
    """

    waits: dict[int, list[DumpWait]]
    joined: dict[int, RecordedCall]
    roots: tuple[int, ...]
    held: frozenset[int]

    @property
    def circle(self) -> tuple[int, ...]:
        """Ranks that wait for each other in a cycle: each for the next, and the last for the first."""
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
        """Returns the path from a waiting rank to a root, or around a cycle."""
        path = [rank]
        while path[-1] in self.waits:
            absent = self.waits[path[-1]][0].absent
            after = next((one for one in absent if one in self.roots), absent[0])
            path.append(after)
            if after in path[:-1]:
                break
        return tuple(path)


def ranks_blocked_in(job: DumpedJob) -> BlockedRanks:
    """Returns where the ranks of a job are blocked."""
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
                last_seq = last[call.group]
                members = job.groups[call.group].members
                absent = tuple(one for one in members if one != rank and last_seq.get(one, -1) < call.seq)
            if absent:
                waits.setdefault(rank, []).append(DumpWait(rank, call, absent))
            elif rank not in joined:
                joined[rank] = call
    awaited = {one for own in waits.values() for wait in own for one in wait.absent}
    held = frozenset(rank for rank, call in joined.items() if not _over_elsewhere(job, call))
    return BlockedRanks(waits, joined, tuple(sorted(awaited - {*waits})), held)


def _over_elsewhere(job: DumpedJob, call: RecordedCall) -> bool:
    calls = job.groups[call.group].calls.values()
    return any(one.over for own in calls for one in own[-LATE:] if one.seq == call.seq)


def _transfer_places(job: DumpedJob) -> Mapping[int, tuple[int, ...]]:
    """Returns, for each unfinished transfer without its other side, the rank that did not make it."""
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
