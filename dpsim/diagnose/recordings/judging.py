"""Judging: decides outcome, class and culprit of a recorded job.

    judge_recorded(job).culprit     # Suspect(ranks=(2,), group="default_pg", seq=6, op="all_reduce", ...)

The package `dumps` judges the calls first. This module then adds what only recordings show:

* An exception or a death explains why other ranks wait for that rank.
* A decision in which ranks differ comes before calls that differ because of it.
* A rank that is in no call is somewhere else in its program, and the recorder knows the line.
"""

from __future__ import annotations

from dpsim.contract.words import counted, duration, ranks_text
from dpsim.diagnose.dumps.explanation import Explanation, Outcome, Suspect
from dpsim.diagnose.dumps.judgement import judge_job
from dpsim.diagnose.recordings.deciding import first_difference
from dpsim.diagnose.recordings.failing import failed, last_ns
from dpsim.diagnose.recordings.job import RecordedJob
from dpsim.diagnose.recordings.living import SECOND

MOVING_NS = 2 * SECOND
"""A running rank still moves if it made a call within this time before any rank was last seen alive."""


def judge_recorded(job: RecordedJob) -> Explanation:
    """Returns the explanation of a recorded job."""
    found = failed(job) or _moving(job) or judge_job(job.dumped)
    found = _with_decisions(job, _outside(job, found))
    found = _with_ends(job, found)
    return found._replace(ground=(*found.ground, *_limits(job)))


def _moving(job: RecordedJob) -> Explanation | None:
    """Returns an explanation if a running rank made a call recently, or None."""
    running = [rank for rank, one in job.recordings.items() if one.end == "runs" and rank not in job.died]
    young = [rank for rank in running if _quiet_ns(job, rank) < MOVING_NS]
    if not young:
        return None
    if job.gone:
        return _all_ended(job, judge_job(job.dumped))
    why = f"{ranks_text(young)} called something in the last {duration(MOVING_NS)}"
    return Explanation("moving", "", None, "", (), (), (), "medium", (why,))


def _all_ended(job: RecordedJob, found: Explanation) -> Explanation:
    """Returns the explanation of a job that moved until all its processes ended without recording an end.

    One of them died, or a signal ended all. So a rank that is behind is no culprit, but a mismatch of calls may be the
    cause.
    """
    if found.culprit and found.majority and found.klass.startswith("MISMATCH:"):
        return found._replace(outcome="failed")
    silent = [rank for rank, one in job.recordings.items() if one.end == "runs"]
    said = f"{ranks_text(silent)} ended without a word while the job moved: one died, or a signal ended them all"
    ground = (*([f"when they ended, {found.said}"] if found.said else []), *found.ground)
    return Explanation("failed", "", None, said, found.waits, (), (), "low", ground)


def _outside(job: RecordedJob, found: Explanation) -> Explanation:
    """Returns the explanation if all calls are over and programs still run: they are blocked outside of calls."""
    running = [rank for rank, one in job.recordings.items() if one.end == "runs" and rank not in job.died]
    if found.outcome != "finished" or not running or job.gone:
        return found
    places = job.dumped.beside.blocked_at
    lines = tuple(f"rank {rank} is at {places[rank].line}" for rank in running if rank in places)
    said = f"all calls are over, and the job still runs: {ranks_text(running)}"
    return Explanation("undecided", "", None, said, (), (), (), "low", lines)


def _with_decisions(job: RecordedJob, found: Explanation) -> Explanation:
    """Returns the explanation with the first decision in which ranks differ as the cause of the rest."""
    differed = first_difference(job.recordings)
    if differed is None:
        return found
    if found.outcome in ("finished", "moving"):
        return found._replace(ground=(differed.said, *found.ground))
    klass = f"DISAGREEMENT:{differed.label.upper()}"
    ground = (*([found.said] if found.said else []), *found.ground)
    if not differed.ranks:
        return found._replace(
            klass=klass, culprit=None, said=differed.said, undecided_ranks=differed.concerned, ground=ground
        )
    culprit = Suspect(differed.ranks, "", None, "", differed.place)
    outcome: Outcome = "hang" if found.outcome == "undecided" else found.outcome
    found = found._replace(outcome=outcome, klass=klass, culprit=culprit, said=differed.said)
    return found._replace(confidence="medium", ground=ground)


def _with_ends(job: RecordedJob, found: Explanation) -> Explanation:
    """Returns the explanation with the end of the culprit's program, if it is known."""
    ranks = () if found.culprit is None else found.culprit.ranks
    ends = [(rank, job.recordings[rank]) for rank in ranks[:2] if rank in job.recordings]
    said = [
        f"the program of rank {rank} ended" if one.end == "ended" else f"rank {rank} raised {one.error}"
        for rank, one in ends
        if one.end != "runs" and found.outcome == "hang"
    ]
    raised = next((one.error for _, one in ends if one.end == "raised"), found.raised)
    return found._replace(ground=(*said, *found.ground), raised=raised)


def _limits(job: RecordedJob) -> list[str]:
    """Returns lines about what the recordings lack, and about ignored ones."""
    said = []
    if job.others:
        said.append(
            f"the folder has recordings of an earlier job, too: {counted(job.others, 'process', 'processes')} left out"
        )
    missed = {rank: one.missed for rank, one in job.recordings.items() if one.missed}
    if missed:
        said.append(f"the recorder could not describe {counted(sum(missed.values()), 'call')} of {ranks_text(missed)}")
    dropped = [rank for rank, one in job.recordings.items() if one.dropped]
    if dropped:
        said.append(f"the table of texts of {ranks_text(dropped)} was full: some lines are missing")
    quiet = min((_quiet_ns(job, rank) for rank in job.recordings), default=0)
    if quiet > MOVING_NS:
        said.append(f"no rank called anything in its last {duration(quiet)}")
    return said


def _quiet_ns(job: RecordedJob, rank: int) -> int:
    """Returns the time from the last call of a rank until any rank was last seen alive."""
    return max(0, max(one.alive for one in job.recordings.values()) - last_ns(job, rank))
