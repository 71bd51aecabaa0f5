"""Repeatable: the calls of a job that a simulation can repeat.

    rank 0   #81 #82 ... #100        rank 2 has lost its call #81, so rank 0 leaves its own out
    rank 2       #82 ... #100

    repeatable = repeatable_calls(job)
    repeatable.calls[0]              # of rank 0, in order
    repeatable.models                # {3: 0}: rank 3 left no dump, and repeats the finished calls of rank 0

A ring buffer keeps the last calls of a rank, so two rings may begin with different calls. In a simulation, the calls of
a group pair up from the first one on, so all members have to begin with the same call. A rank without a dump makes the
finished calls that a peer, its model, made with it. Nothing shows its calls in other groups, so the members of these
leave out the calls that finished there.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.partings import shift


class RepeatableCalls(NamedTuple):
    """`calls`: by rank, in order. `models`: the rank whose calls a rank without a dump repeats."""

    calls: dict[int, list[RecordedCall]]
    models: dict[int, int]


def repeatable_calls(job: DumpedJob, blocked: BlockedRanks) -> RepeatableCalls:
    """Returns the calls of all ranks with a dump, without those that cannot pair up."""
    lost = _lost_collectives(job) | _lost_transfers(job)
    models = {rank: model for rank in job.missing if (model := _model(job, blocked, rank)) is not None}
    return RepeatableCalls(
        {
            rank: [call for call in own if id(call) not in lost and not _is_unknown(job, rank, call, models)]
            for rank, own in job.calls.items()
        },
        models,
    )


def finished_with(job: DumpedJob, calls: list[RecordedCall], rank: int) -> list[RecordedCall]:
    """Returns the finished calls of a peer that a rank must have made, too."""
    return [call for call in calls if call.over and rank in _partners(job, call)]


def _partners(job: DumpedJob, call: RecordedCall) -> tuple[int, ...]:
    return (job.peer(call),) if call.shape.is_transfer else job.groups[call.group].members


def _lost_collectives(job: DumpedJob) -> set[int]:
    """Returns the identities of the collectives that the ring of another member has lost."""
    lost: set[int] = set()
    for group in job.groups.values():
        library = group.key.partition(":")[0]
        first = max((own[0].seq for own in group.calls.values() if own), default=0)
        empty = any(library in job.dumps[rank].wrapped for rank, own in group.calls.items() if not own)
        silent = any(
            rank in job.dumps and library in job.dumps[rank].wrapped
            for rank in group.members
            if rank not in group.calls
        )
        for own in group.calls.values():
            lost |= {id(call) for call in own if call.seq < first or (call.over and (empty or silent))}
    return lost


def _lost_transfers(job: DumpedJob) -> set[int]:
    """Returns the identities of the transfers that the ring of their peer has lost."""
    lost: set[int] = set()
    for line in job.lines.values():
        ahead = shift(job, line)
        lost |= {id(call) for call in (*line.sends[: max(-ahead, 0)], *line.receives[: max(ahead, 0)]) if call.over}
    return lost


def _model(job: DumpedJob, blocked: BlockedRanks, rank: int) -> int | None:
    """Returns a peer that waits for the rank, in a collective if possible; else the one with the most calls with it."""
    waits = [wait for own in blocked.waits.values() for wait in own if rank in wait.absent]
    first = min(waits, key=lambda wait: wait.call.shape.is_transfer, default=None)
    if first is not None:
        return first.rank
    often = {peer: len(finished_with(job, own, rank)) for peer, own in job.calls.items()}
    return max((peer for peer in often if often[peer]), key=lambda peer: often[peer], default=None)


def _is_unknown(job: DumpedJob, rank: int, call: RecordedCall, models: dict[int, int]) -> bool:
    """Returns whether a call finished with a rank without a dump that does not repeat it."""
    if not call.over:
        return False
    partners = _partners(job, call)
    for other in job.missing:
        if other in partners:
            model = models.get(other)
            known = model == rank if call.shape.is_transfer else model in partners
            if not known:
                return True
    return False
