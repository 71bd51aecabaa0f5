"""Missing dumps: names the culprit if ranks wait and a rank left no dump.

    rank 1 left no dump, and rank 0 waits for it                            ->  rank 1 is gone, or its dump is missing
    rank 1 left no dump, and rank 2 made #1, finished it and skipped #2     ->  one of ranks 1, 2

A dump that shows that its rank did not join a call is better evidence than a missing dump. It does not show why: rank 2
may wait for the dead rank 1 outside of torch.distributed. So neither of the two is blamed.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks, DumpWait
from dpsim.diagnose.dumps.deciding import DEAD, LEFT_OUT, Decided
from dpsim.diagnose.dumps.explanation import Confidence
from dpsim.diagnose.dumps.job import DumpedJob


def decide_missing(job: DumpedJob, blocked: BlockedRanks) -> Decided:
    """Returns the culprit of the waits in a job with missing ranks: these ranks, unless a rank with a dump is absent,
    too.
    """
    return _not_decided(job, blocked) or _dead(job, blocked)


def absent_with_dump(job: DumpedJob, blocked: BlockedRanks) -> tuple[int, ...]:
    """Returns the ranks that others wait for although their dumps show no unfinished call."""
    return tuple(rank for rank in blocked.roots if rank in job.calls and rank not in {*job.missing, *blocked.held})


def _not_decided(job: DumpedJob, blocked: BlockedRanks) -> Decided | None:
    """Returns the decision that blames neither the ranks without a dump nor those whose dump shows that they did not
    join. None without ranks of the second kind, or if a record shows that a missing rank died.
    """
    idle = absent_with_dump(job, blocked)
    if not idle or {*job.missing} & {*job.dumps}:
        return None
    wait = next(one for own in blocked.waits.values() for one in own if {*idle} & {*one.absent})
    call, name = wait.call, job.groups[wait.call.group].name
    joined = "make the other side of" if call.shape.is_transfer else "join"
    here = [rank for rank in idle if rank in wait.absent]
    said = (
        f"{ranks_text(here)} did not {joined} {call.shape.op} #{call.seq} on {name}, in which rank {wait.rank} waits; "
        f"{ranks_text(job.missing)} left no dump"
    )
    klass = dead_class(wait) if call.shape.is_transfer else LEFT_OUT
    suspects = tuple(sorted({*idle, *job.missing}))
    return Decided(klass, (), suspects, call.group, call, said, "low", tuple(last_of(job, idle)))


def _dead(job: DumpedJob, blocked: BlockedRanks) -> Decided:
    awaited = {one for own in blocked.waits.values() for wait in own for one in wait.absent}
    dead = tuple(rank for rank in job.missing if rank in awaited) or job.missing
    waits = [wait for own in blocked.waits.values() for wait in own]
    wait = next((one for one in waits if {*dead} & {*one.absent}), waits[0] if waits else None)
    call = wait.call if wait is not None else next(iter(blocked.joined.values()))
    known = bool({*dead} & {*job.dumps})
    left = "died" if known else "left no dump"
    either = (
        ""
        if known
        else ": it died, or its dump is missing"
        if len(dead) == 1
        else ": they died, or their dumps are missing"
    )
    message = f"{ranks_text(dead)} {left}, and others wait{either}"
    verb = "waits" if len(blocked.waits) == 1 else "wait"
    ground = (f"{ranks_text(job.missing)} {left}, and {ranks_text(blocked.waits)} {verb}",)
    klass = DEAD if wait is None else dead_class(wait)
    sure: Confidence = "high" if known and awaited & {*dead} else "low"
    return Decided(klass, dead, (), call.group, call, message, sure, ground)


def dead_class(wait: DumpWait) -> str:
    """Returns the class of a wait for a rank that is gone."""
    op = wait.call.shape.op
    return {"send": "HANG:P2P:UNMATCHED_SEND", "recv": "HANG:P2P:UNMATCHED_RECV"}.get(op, DEAD)


def last_of(job: DumpedJob, ranks: Iterable[int]) -> list[str]:
    """Returns lines about the last calls of ranks."""
    lines = []
    for rank in list(ranks)[:2]:
        own = job.calls.get(rank)
        if own:
            call = own[-1]
            where = f" at {call.place.line}" if call.place.line else ""
            state = "which finished" if call.over else "which did not finish"
            lines.append(
                f"the last call of rank {rank} is {call.shape.op} #{call.seq} on {job.groups[call.group].name}"
                f"{where}, {state}"
            )
    return lines
