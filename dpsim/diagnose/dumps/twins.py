"""Twins: compares two ranks, or a group, with others that do the same, to decide whether a call belongs there.

    ranks 0, 2   12 calls, and rank 0 stands in a 13th without rank 2
    ranks 1, 3   13 calls each, over                                       ->  rank 2 left one out
    ranks 1, 3   12 calls each, and no more                                ->  rank 0 made one too many

Two ranks have no majority, and a pipeline seldom has three ranks that do the same. But a second replica does the same.
So each of the two ranks needs a twin with equal calls so far, and both twins must agree.

    group ep.0   rank 0 stands in call 12, rank 2 made 11, and no other rank stands anywhere
    group ep.1   12 calls of each member, over                             ->  rank 2 left one out
    group ep.1   11 calls of each member, over                             ->  rank 0 made one too many

Other groups of the same kind make equally many calls by the end of the job. So the comparison of groups needs that
all other calls are over, and that no ring buffer has lost calls.
"""

from __future__ import annotations

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks, DumpWait
from dpsim.diagnose.dumps.deciding import LEFT_OUT, TOO_MANY, Decided
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.usual import Usual


def by_second(job: DumpedJob, usual: Usual, blocked: BlockedRanks, wait: DumpWait) -> Decided | None:
    """Returns the decision against the side of a wait that differs from its twin or from another group, or None."""
    roots = [rank for rank in wait.absent if rank in blocked.roots and rank in job.calls]
    if len(roots) != 1 or any(dump.wrapped for dump in job.dumps.values()):
        return None
    members = [one for one in job.groups[wait.call.group].members if one in job.calls]
    if not wait.call.shape.is_transfer and 2 * len(wait.absent) != len(members):
        return None  # the call has a majority
    return _by_twins(job, usual, wait, roots[0]) or _by_groups(job, wait, roots[0])


def _by_twins(job: DumpedJob, usual: Usual, wait: DumpWait, absent: int) -> Decided | None:
    tokens, at = usual.tokens, next(i for i, one in enumerate(job.calls[wait.rank]) if one is wait.call)
    before, with_it = tokens[wait.rank][:at], tokens[wait.rank][: at + 1]
    theirs = tokens[absent]
    others = [rank for rank in tokens if rank not in (wait.rank, absent)]
    made = [rank for rank in others if tokens[rank][: at + 1] == with_it]
    without = [rank for rank in others if tokens[rank] == before]
    go_on = [rank for rank in others if len(tokens[rank]) > len(theirs) and tokens[rank][: len(theirs)] == theirs]
    stop = [rank for rank in others if tokens[rank] == theirs]
    if made and go_on and not without and not stop:
        return _decided(job, wait, absent, ranks_text(sorted({*made, *go_on})), True)
    if without and stop and not made and not go_on:
        return _decided(job, wait, wait.rank, ranks_text(sorted({*without, *stop})), False)
    return None


def _by_groups(job: DumpedJob, wait: DumpWait, absent: int) -> Decided | None:
    """Compares the numbers of calls of other groups of the kind, if all calls of the job but this one are over."""
    call, group = wait.call, job.groups[wait.call.group]
    if call.shape.is_transfer or [one for own in job.calls.values() for one in own if not one.over] != [call]:
        return None
    others = [
        one for one in job.groups.values() if one.kind == group.kind and one.key != group.key and len(one.members) > 1
    ]
    counts = {len(one.calls.get(rank, [])) for one in others for rank in one.members}
    made = len(group.calls[wait.rank])
    if len(counts) != 1 or counts - {made, made - 1}:
        return None
    left_out = counts == {made}
    return _decided(
        job, wait, absent if left_out else wait.rank, " and ".join(one.name for one in others[:2]), left_out
    )


def _decided(job: DumpedJob, wait: DumpWait, rank: int, twins: str, left_out: bool) -> Decided:
    call = wait.call
    name = f"{call.shape.op} #{call.seq} on {job.groups[call.group].name}"
    did = "did not make the other side of" if call.shape.is_transfer else "did not make"
    message = f"rank {rank} {did} {name}" if left_out else f"rank {rank} made {name}, one call too many"
    ground = f"{twins} had the same calls before, and {'this one too' if left_out else 'no further one'}"
    klass = LEFT_OUT if left_out else TOO_MANY
    if call.shape.is_transfer:
        klass = f"HANG:P2P:UNMATCHED_{call.shape.op.upper()}"
    return Decided(klass, (rank,), (), call.group, call, message, "medium", (ground,))
