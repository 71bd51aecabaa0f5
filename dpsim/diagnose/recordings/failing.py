"""Failing: explains a recorded job in which a rank died or raised, and whose other ranks do not run any more.

    rank 1 ended after call #8, rank 0 raised "Connection closed by peer" in #9    ->  rank 1 left out #9
    rank 2 passed 4 elements where ranks 0, 1 passed 8, and ranks 0, 2 died        ->  rank 2: gloo ends such processes
    rank 1 raised "planted", rank 0 raised "Connection closed by peer"             ->  rank 1

An exception about a lost connection only shows that a peer is gone. So each other reason comes before it.
"""

from __future__ import annotations

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.entries import NOWHERE, RecordedCall
from dpsim.diagnose.dumps.explanation import Confidence, Explanation, Suspect
from dpsim.diagnose.dumps.judgement import judge_job
from dpsim.diagnose.recordings.job import LOST, RecordedJob
from dpsim.diagnose.recordings.living import SECOND


def failed(job: RecordedJob) -> Explanation | None:
    """Returns the explanation if a rank died or raised and no other rank runs any more, or None.

    A launcher ends the other ranks soon after the first one.
    """
    raised = [rank for rank, one in job.recordings.items() if one.end == "raised"]
    last = max((job.recordings[rank].alive for rank in raised), default=0)
    running = [
        rank
        for rank, one in job.recordings.items()
        if one.end == "runs" and rank not in job.died and not (raised and one.alive < last + SECOND)
    ]
    if running or not (raised or job.died):
        return None
    own = [rank for rank in raised if not LOST.search(job.recordings[rank].error)]
    if job.died:
        return _of_mismatch(job) or _first(job, raised, job.died, "high")
    found = None if own else _ended_before(job, raised)
    alone: Confidence = "high" if len(own) == 1 else "medium"
    return found or _first(job, raised, (min(own or raised, key=lambda rank: last_ns(job, rank)),), alone)


def _first(job: RecordedJob, raised: list[int], first: tuple[int, ...], sure: Confidence) -> Explanation:
    """Returns the explanation by the ranks that failed first."""
    said = f"{ranks_text(first)} died" if job.died else f"rank {first[0]} raised {job.recordings[first[0]].error}"
    calls = job.dumped.calls.get(first[0], [])
    call = calls[-1] if calls else None
    group = job.dumped.groups[call.group].name if call is not None else ""
    place = NOWHERE if call is None else call.place
    culprit = Suspect(first, group, call.seq if call else None, call.shape.op if call else "", place)
    ground = tuple(f"rank {rank} raised {job.recordings[rank].error}" for rank in raised[:2] if rank not in first)
    return Explanation("failed", "DEATH:RANK" if job.died else "", culprit, said, (), (), (), sure, ground)


def _of_mismatch(job: RecordedJob) -> Explanation | None:
    """Returns the difference between the last calls of the dead ranks and those of their peers, or None.

    gloo ends a process that receives more bytes than it expects. So the difference explains the deaths.
    """
    found = judge_job(job.dumped)
    culprit = found.culprit
    if culprit is None or not found.klass.startswith("MISMATCH:"):
        return None
    last = {rank: call for rank in job.died for call in job.dumped.calls.get(rank, [])[-1:]}
    here = (culprit.group, culprit.seq)
    there = [rank for rank, call in last.items() if (job.dumped.groups[call.group].name, call.seq) == here]
    if not there:
        return None
    died = f"{ranks_text(there)} died in this call: a process may die of a wrong count or type"
    return found._replace(outcome="failed", ground=(died, *found.ground))


def _ended_before(job: RecordedJob, raised: list[int]) -> Explanation | None:
    """Returns the ranks whose programs ended before a call in which a peer lost its connection. None without them.

    If they are no minority of the group, the peer may have made a call too many. Then no rank is blamed.
    """
    ended = {rank for rank, one in job.recordings.items() if one.end == "ended"}
    for rank in sorted(raised, key=lambda one: last_ns(job, one)):
        call = next(reversed(job.dumped.calls.get(rank, [])), None)
        absent = tuple(sorted(ended & {*_absent(job, call)})) if call is not None else ()
        if call is None or not absent:
            continue
        group = job.dumped.groups[call.group].name
        name = f"{call.shape.op} #{call.seq} on {group}"
        said = f"the program of {ranks_text(absent)} ended before {name}, in which rank {rank} lost a connection"
        ground = f"rank {rank} raised {job.recordings[rank].error}"
        transfer = {"send": "HANG:P2P:UNMATCHED_SEND", "recv": "HANG:P2P:UNMATCHED_RECV"}
        klass = transfer.get(call.shape.op, "HANG:COLLECTIVE:MISSING_RANK")
        made = [one for one in job.dumped.groups[call.group].members if one not in absent]
        if call.shape.is_transfer or len(absent) >= len(made):
            why = f"{ranks_text(absent)} ended too early, or rank {rank} made a call too many"
            suspects = tuple(sorted((rank, *absent)))
            return Explanation("failed", klass, None, said, (), (), suspects, "low", (ground,), why=why)
        culprit = Suspect(absent, group, call.seq, call.shape.op, call.place)
        return Explanation("failed", klass, culprit, said, (), (), (), "medium", (ground,))
    return None


def _absent(job: RecordedJob, call: RecordedCall) -> list[int]:
    """Returns the ranks that did not make a call which a rank made."""
    group = job.dumped.groups[call.group]
    if call.shape.is_transfer:
        return [job.dumped.peer(call)]
    return [rank for rank in group.members if all(one.seq < call.seq for one in group.calls.get(rank, []))]


def last_ns(job: RecordedJob, rank: int) -> int:
    """Returns the time at which a rank, or its library, last made a call."""
    one = job.recordings[rank]
    return max(one.records[-1].start if one.records else one.began, one.moved)
