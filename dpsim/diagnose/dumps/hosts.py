"""Hosts: uses stacks, logs and NCCL's status beside the dumps to find the culprit, or its line.

    rank 2   all calls are over, and its main thread is at data.py:7          ->  its line, in place of its peers'
    ranks 0, 1   one of them is the cause; rank 1 waits in no call            ->  rank 1
    ranks 0, 1   one of them is the cause; RAS says that rank 1 is behind     ->  rank 1

Stacks come from dpsim's recorder or from `py-spy dump`. Without such evidence, the result of the calls stays as it is.
"""

from __future__ import annotations

from dpsim.diagnose.dumps.entries import NOWHERE
from dpsim.diagnose.dumps.explanation import Explanation, Suspect
from dpsim.diagnose.dumps.job import DumpedJob


def with_lines(job: DumpedJob, found: Explanation) -> Explanation:
    """Returns the explanation, with the line at which the culprit is blocked if it is in no call."""
    found = _idle(job, found)
    ends = [f"the log of rank {rank} ends with {end}" for rank, end in job.beside.ends.items()][:2]
    found = found._replace(ground=(*job.beside.ras, *ends, *found.ground))
    culprit = found.culprit
    if culprit is None or len(culprit.ranks) != 1:
        return found
    [rank] = culprit.ranks
    found = found._replace(raised=job.beside.ends.get(rank, ""))
    place = job.beside.blocked_at.get(rank)
    if place is None:
        return found
    if _is_idle(job, rank):
        skipped = bool(culprit.op) and not _made(job, rank, culprit)
        culprit = culprit._replace(place=place, call_line=culprit.place.line, skipped=skipped)
    return found._replace(culprit=culprit, ground=(f"rank {rank} is at {place.line}", *found.ground))


def _idle(job: DumpedJob, found: Explanation) -> Explanation:
    """Returns the explanation. If one of several ranks is the culprit, it is the one that runs and is in no call."""
    if found.culprit is not None:
        return found
    places = [
        f"rank {rank} is at {job.beside.blocked_at[rank].line}"
        for rank in found.undecided_ranks
        if rank in job.beside.blocked_at
    ]
    if found.undumped:  # a missing rank may be the cause, wherever the others are
        return found._replace(ground=(*places, *found.ground))
    for suspects, why in (
        ([rank for rank in found.undecided_ranks if _is_idle(job, rank)], "waits in no call"),
        ([rank for rank in found.undecided_ranks if rank in job.beside.behind], "launched fewer operations"),
    ):
        if len(suspects) == 1:
            return _named(job, found, suspects[0], why)
    return found


def _named(job: DumpedJob, found: Explanation, rank: int, why: str) -> Explanation:
    said = f"{found.said.partition(', and no evidence shows')[0]}; rank {rank} {why}"
    culprit = Suspect((rank,), "", None, "", job.beside.blocked_at.get(rank, NOWHERE))
    klass = "HANG:COLLECTIVE:MISSING_RANK"
    return found._replace(klass=klass, culprit=culprit, said=said, undecided_ranks=(), confidence="medium")


def _made(job: DumpedJob, rank: int, culprit: Suspect) -> bool:
    """Returns whether a rank made the call of a culprit."""
    for call in job.calls.get(rank, []):
        if (job.groups[call.group].name, call.seq, call.shape.op) == (culprit.group, culprit.seq, culprit.op):
            return True
    return False


def _is_idle(job: DumpedJob, rank: int) -> bool:
    hidden = rank in job.hidden  # a call that its recorder does not show
    return rank in job.beside.blocked_at and not hidden and all(call.over for call in job.calls.get(rank, []))
