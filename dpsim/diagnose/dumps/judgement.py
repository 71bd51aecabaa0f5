"""Judgement: decides the outcome and the culprit of a job from its dumps.

    found = judge_dumps(read_dumps(folder))
    found.outcome, found.culprit      # "hang", Suspect(ranks=(2,), group="default_pg", seq=6, op="all_reduce", ...)

The module tries four kinds of evidence in this order, because an earlier kind explains a later one:

1. A job that still moves, or has ended, has no culprit.
2. Members of a group made different calls. The majority is right. Of two members, the one with the usual calls is
  right.
3. Other ranks wait for a rank that left no dump, and for no rank whose dump shows that it did not join.
4. A rank left out a call, or made one too many. This rank is the minority, or the end of the chain of waits, or the one
   that departs from the usual order.

If none of them decides, there is no culprit, and one of `undecided_ranks` is the cause.
"""

from __future__ import annotations

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks, ranks_blocked_in
from dpsim.diagnose.dumps.deciding import Decided, decide_parting
from dpsim.diagnose.dumps.deciding_waits import decide_waits
from dpsim.diagnose.dumps.entries import NOWHERE
from dpsim.diagnose.dumps.explanation import Confidence, Explanation, Outcome, Suspect
from dpsim.diagnose.dumps.gaps import missing_line
from dpsim.diagnose.dumps.hosts import with_lines
from dpsim.diagnose.dumps.job import DumpedJob, job_of
from dpsim.diagnose.dumps.pace import Pace, pace
from dpsim.diagnose.dumps.partings import partings
from dpsim.diagnose.dumps.reading import Dumps
from dpsim.diagnose.dumps.usual import Usual


def judge_dumps(dumps: Dumps) -> Explanation:
    """Returns what the dumps of a job show."""
    return judge_job(job_of(dumps))


def judge_job(job: DumpedJob) -> Explanation:
    """Returns what a job shows, and what its dumps lack."""
    found = _shown(job)
    missing = missing_line(job.missing, (*found.ground, found.said))
    return found._replace(ground=(*found.ground, *missing, *job.gaps))


def _shown(job: DumpedJob) -> Explanation:
    how = pace(job)
    blocked = ranks_blocked_in(job)
    if how.moving:
        return _plain("moving", how.why, "high" if how.sure else "medium")
    if not any(job.calls.values()):
        return _plain("undecided", "no recorder has a call", "low")
    if not blocked.waits and not blocked.joined:
        return _ended(job)
    return with_lines(job, _hang(job, blocked, how))


def _plain(outcome: Outcome, why: str, confidence: Confidence, klass: str = "") -> Explanation:
    return Explanation(outcome, klass, None, "", (), (), (), confidence, (why,))


def _ended(job: DumpedJob) -> Explanation:
    """Returns the explanation of a job in which all calls are over."""
    uneven = [group for group in job.groups.values() if len({own[-1].seq for own in group.calls.values() if own}) > 1]
    if job.missing:
        why = f"{ranks_text(job.missing)} left no dump; all calls of the others are over"
        gone = Suspect(job.missing, "", None, "", NOWHERE)
        no_dump = not {*job.missing} & {*job.dumps}
        return _plain("failed", why, "low", "DEATH:RANK")._replace(culprit=gone, said=why, no_dump=no_dump)
    if uneven:
        group = uneven[0]
        last = {rank: own[-1].seq for rank, own in group.calls.items() if own}
        fewest = [rank for rank in last if last[rank] == min(last.values())]
        why = f"all calls are over, but {ranks_text(fewest)} made fewer on {group.name}"
        return _plain("undecided", why, "low")
    return _plain("finished", "all calls are over, and the members of each group made as many", "high")


def _hang(job: DumpedJob, blocked: BlockedRanks, how: Pace) -> Explanation:
    usual = Usual(job)
    undecided: Decided | None = None
    for parting in partings(job):
        decided = decide_parting(job, usual, parting)
        if decided.ranks:
            return _explained(job, blocked, decided, how)
        undecided = undecided or decided
    decided = undecided or decide_waits(job, usual, blocked)
    return _explained(job, blocked, decided, how)


def _explained(job: DumpedJob, blocked: BlockedRanks, decided: Decided, how: Pace) -> Explanation:
    culprit = None
    if decided.ranks:
        group = job.groups[decided.group]
        call = decided.call
        place = NOWHERE if call is None else call.place
        op = "" if call is None else call.shape.op
        culprit = Suspect(decided.ranks, group.name, None if call is None else call.seq, op, place)
    ground = tuple(dict.fromkeys((*decided.ground, *how.ground, *_limits(job))))
    undumped = tuple(rank for rank in decided.suspects if rank in job.missing)
    return Explanation(
        "hang" if blocked.waits or decided.ranks or decided.klass != "HANG:UNDECIDED" else "undecided",
        decided.klass,
        culprit,
        decided.said,
        waits_of(job, blocked),
        blocked.circle,
        () if culprit else decided.suspects,
        decided.confidence,
        ground,
        no_dump=bool(decided.ranks) and {*decided.ranks} <= {*job.missing} - {*job.dumps},
        why=f"{ranks_text(undumped)} left no dump" if undumped else "",
        undumped=undumped,
        majority=decided.majority,
    )


def _limits(job: DumpedJob) -> list[str]:
    """Returns lines about what the dumps do not show."""
    lines = []
    if job.hidden:
        lines.append(f"{ranks_text(job.hidden)} made works that the recorder does not show, such as gloo's transfers")
    return lines


def waits_of(job: DumpedJob, blocked: BlockedRanks) -> tuple[str, ...]:
    """Returns the waits in words, with the ranks of one call together."""
    sides: dict[tuple[str, int, str, tuple[int, ...]], list[int]] = {}
    for rank, own in blocked.waits.items():
        call = own[0].call
        name = job.groups[call.group].name
        sides.setdefault((name, call.seq, call.shape.op, own[0].absent), []).append(rank)
    lines = [
        f"{ranks_text(ranks)} -> {ranks_text(absent)} ({op} on {name} #{seq})"
        for (name, seq, op, absent), ranks in sides.items()
    ]
    met: dict[tuple[str, int], dict[str, list[int]]] = {}
    for rank, call in blocked.joined.items():
        by_op = met.setdefault((job.groups[call.group].name, call.seq), {})
        by_op.setdefault(call.shape.op, []).append(rank)
    for (name, seq), by_op in met.items():
        if {rank for ranks in by_op.values() for rank in ranks} <= {*blocked.waits}:
            continue
        transfer = {*by_op} <= {"send", "recv"}
        if len(by_op) > 1 and not transfer:
            made = ", ".join(f"{ranks_text(ranks)} made {op}" for op, ranks in by_op.items())
            lines.append(f"call #{seq} on {name}: {made}")
            continue
        meet = " and ".join(f"{ranks_text(ranks)} in {op}" for op, ranks in by_op.items())
        lines.append(f"{meet} on {name} #{seq}, which {'both sides' if transfer else 'all members'} made")
    return tuple(lines)
