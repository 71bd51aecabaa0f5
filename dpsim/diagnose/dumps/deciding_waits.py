"""Deciding waits: names the culprit if ranks wait for each other and all calls that paired up are equal.

    rank 2 made five calls where its peers stand in the sixth          ->  rank 2 left it out (a minority of one)
    rank 3 stands in a seventh call, and its peers made six            ->  rank 3 made one too many
    rank 3 left no dump, and its peers wait                            ->  `missing_dumps` decides

Two ranks have no majority. Then the culprit is the rank that departs from the usual order of calls. If neither or both
do, this module names no rank.
"""

from __future__ import annotations

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.alike import COMPANIONS, OddRank, companions, odd_rank
from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks, DumpWait
from dpsim.diagnose.dumps.deciding import LEFT_OUT, ORDER, TOO_MANY, UNKNOWN, Decided, by_habit_at, departed, only
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.missing_dumps import dead_class, decide_missing, last_of
from dpsim.diagnose.dumps.peers import wrong_peer
from dpsim.diagnose.dumps.twins import by_second
from dpsim.diagnose.dumps.usual import Departure, Usual, lone


def decide_waits(job: DumpedJob, usual: Usual, blocked: BlockedRanks) -> Decided:
    """Returns the culprit of the waits, if all calls that paired up are equal."""
    if job.missing:
        return decide_missing(job, blocked)
    stray = wrong_peer(job, blocked)
    if stray is not None:
        return stray
    for wait in _first_waits(blocked)[:1]:
        twins = by_second(job, usual, blocked, wait)
        if twins is not None:
            return twins
    by_habit = _of_habits(job, usual, blocked) if job.lines else None
    for wait in _first_waits(blocked):
        decided = _minority(job, usual, blocked, wait)
        if decided is not None:
            if by_habit is not None and decided.ranks != (by_habit.rank,):
                break  # an absent rank may wait on its device for a call that the other rank left out
            return decided
    for wait in _first_waits(blocked)[:1]:
        decided = _of_cohort(job, usual, wait, {*job.calls}) or _beside_a_sound_call(job, usual, blocked, wait)
        if decided is not None:
            return decided
    if not blocked.waits:
        odd = odd_rank(job, usual)
        if odd is not None and odd.rank in blocked.joined:
            return _out_of_order(job, blocked, odd)
    if by_habit is None and not job.lines:
        by_habit = _of_habits(job, usual, blocked)
    if by_habit is not None and blocked.waits:
        wait = _first_waits(blocked)[0]
        return departed(job, by_habit, dict.fromkeys((wait.rank, *wait.absent), wait.call), _class_of(wait, by_habit))
    return _undecided(job, blocked)


def _of_habits(job: DumpedJob, usual: Usual, blocked: BlockedRanks) -> Departure | None:
    """Returns the departure of the only waiting or missing rank that departs from the usual order, or None."""
    absent = (one for own in blocked.waits.values() for wait in own for one in wait.absent)
    concerned = {*blocked.waits, *blocked.joined, *absent} & {*job.calls}
    return only(lone({rank: usual.departures(rank) for rank in sorted(concerned)}))


def _class_of(wait: DumpWait, departure: Departure) -> str:
    if wait.call.shape.is_transfer:
        return f"HANG:P2P:UNMATCHED_{wait.call.shape.op.upper()}"
    return TOO_MANY if departure.more else LEFT_OUT


def _first_waits(blocked: BlockedRanks) -> list[DumpWait]:
    """Returns one wait for each call. Those whose absent ranks do not wait come first."""
    first: dict[tuple[str, int, str], DumpWait] = {}
    for own in blocked.waits.values():
        for wait in own[:1]:
            key = wait.call.group, wait.call.seq, wait.call.shape.op
            if wait.call.shape.is_transfer:
                key = wait.call.group, wait.rank, wait.call.shape.op
            first.setdefault(key, wait)
    return sorted(first.values(), key=lambda wait: (not {*wait.absent} & {*blocked.roots}, wait.call.created))


def _minority(job: DumpedJob, usual: Usual, blocked: BlockedRanks, wait: DumpWait) -> Decided | None:
    """Returns the decision against the minority: the ranks that made a call, or those that did not."""
    call, group = wait.call, job.groups[wait.call.group]
    absent = [rank for rank in wait.absent if rank in job.calls]
    present = [rank for rank in group.members if rank in job.calls and rank not in absent]
    if call.shape.is_transfer or len(absent) == len(present):
        return _by_habit_of_waits(job, usual, wait, present if not call.shape.is_transfer else [wait.rank], absent)
    name = f"{call.shape.op} #{call.seq} on {group.name}"
    if len(absent) < len(present):
        roots = [rank for rank in absent if rank in blocked.roots] or absent
        stuck = [rank for rank in roots if rank in blocked.waits]
        if any(rank in blocked.held and rank not in stuck for rank in roots):
            return None  # its own operation never ends, perhaps because a member is in no dump
        if stuck and (job.lines or not all(_alone_there_too(job, blocked, rank) for rank in stuck)):
            return _of_cohort(
                job, usual, wait, {*stuck, *(one for rank in stuck for one in blocked.waits[rank][0].absent)}
            )
        klass = ORDER if stuck and _at_first_calls(blocked, stuck[0], wait) else LEFT_OUT
        did = "did not make" if not stuck else "left out, or will make later,"
        message = f"{ranks_text(roots)} {did} {name}; {ranks_text(present)} wait{'s' * (len(present) == 1)} in it"
        ground = (f"{len(present)} of {len(present) + len(absent)} members made it", *last_of(job, roots))
        return Decided(klass, tuple(roots), (), group.key, call, message, "medium", ground)
    if len(present) == 1 or not any(rank in blocked.waits for rank in absent):
        message = f"{ranks_text(present)} made {name}, which {ranks_text(absent)} did not make"
        ground = (f"{len(absent)} of {len(present) + len(absent)} members made no such call", *last_of(job, present))
        return Decided(TOO_MANY, tuple(present), (), group.key, call, message, "medium", ground)
    return None


def _alone_there_too(job: DumpedJob, blocked: BlockedRanks, rank: int) -> bool:
    """Returns whether a rank that its peers miss is also in the minority in the call in which it is blocked itself."""
    own = blocked.waits[rank][0]
    members = [one for one in job.groups[own.call.group].members if one in job.calls]
    absent = [one for one in own.absent if one in job.calls]
    return 2 * (len(members) - len(absent)) < len(members)


def _of_cohort(job: DumpedJob, usual: Usual, wait: DumpWait, among: set[int]) -> Decided | None:
    """Returns the decision against the one rank of `among` that differs from all ranks with the same calls so far."""
    odd = odd_rank(job, usual)
    if odd is None or odd.rank not in among:
        return None
    klass = TOO_MANY if odd.more else LEFT_OUT
    departure = Departure(
        odd.rank, odd.at, usual.tokens[odd.rank][odd.at] if odd.more else odd.theirs, odd.more, odd.why
    )
    return departed(job, departure, dict.fromkeys((wait.rank, *wait.absent), wait.call), klass)


def _beside_a_sound_call(job: DumpedJob, usual: Usual, blocked: BlockedRanks, wait: DumpWait) -> Decided | None:
    """Returns the decision against a rank without a call, if other ranks with the waiting rank's history made this
    call.
    """
    roots = [rank for rank in wait.absent if rank in blocked.roots and rank in job.calls and rank not in blocked.held]
    same = [rank for rank in companions(job, usual, wait.rank, wait.call) if rank not in wait.absent]
    if len(roots) != 1 or len(same) < COMPANIONS or wait.call.shape.is_transfer:
        return None
    call, name = wait.call, job.groups[wait.call.group].name
    message = f"rank {roots[0]} did not make {call.shape.op} #{call.seq} on {name}, in which rank {wait.rank} waits"
    ground = (f"{ranks_text(same)} made the same calls as rank {wait.rank}, this one too", *last_of(job, roots))
    return Decided(LEFT_OUT, tuple(roots), (), call.group, call, message, "medium", ground)


def _out_of_order(job: DumpedJob, blocked: BlockedRanks, odd: OddRank) -> Decided:
    """Returns the decision if all members made all calls, but one rank in another order."""
    call = job.calls[odd.rank][odd.at]
    several = len({one.group for one in blocked.joined.values()}) > 1
    message = (
        f"rank {odd.rank} made {call.shape.op} #{call.seq} on {job.groups[call.group].name} out of the others' order"
    )
    klass = ORDER if several else UNKNOWN
    return Decided(klass, (odd.rank,), (), call.group, call, message, "medium", (odd.why,))


def _at_first_calls(blocked: BlockedRanks, rank: int, wait: DumpWait) -> bool:
    """Returns whether a rank and its waiting peers are in the first calls of two groups.

    Then the order of the groups is in doubt. In later calls, a missing call is more likely.
    """
    own = blocked.waits[rank][0]
    return wait.rank in own.absent and own.call.seq == 1 == wait.call.seq


def _by_habit_of_waits(
    job: DumpedJob, usual: Usual, wait: DumpWait, present: list[int], absent: list[int]
) -> Decided | None:
    """Returns the decision against the one of two sides that departs from the usual order, or None."""
    group = wait.call.group
    last = {rank: job.calls[rank][-1] for rank in (*present, *absent) if job.calls.get(rank)}
    last[wait.rank] = wait.call
    departure = by_habit_at(job, usual, group, last)
    if departure is None:
        return None
    return departed(job, departure, last, _class_of(wait, departure))


def _undecided(job: DumpedJob, blocked: BlockedRanks) -> Decided:
    circle = blocked.circle
    if circle:
        group = blocked.waits[circle[0]][0].call
        groups = {blocked.waits[rank][0].call.group for rank in circle}
        transfers = {blocked.waits[rank][0].call.shape.op for rank in circle}
        klass = ORDER if len(groups) > 1 else UNKNOWN
        if transfers <= {"send"} or transfers <= {"recv"}:
            klass = "HANG:P2P:CROSSED_SENDS" if transfers <= {"send"} else "HANG:P2P:CROSSED_RECVS"
        message = f"{ranks_text(circle)} wait for each other, and no evidence shows which is wrong"
        return Decided(klass, (), circle, group.group, group, message, "low", ())
    if blocked.waits:
        wait = _first_waits(blocked)[0]
        hidden = {*wait.absent} <= {*job.hidden} and not wait.call.shape.is_transfer
        suspects = tuple(sorted({*wait.absent} if hidden else {wait.rank, *wait.absent}))
        klass = dead_class(wait) if wait.call.shape.is_transfer else UNKNOWN
        message = f"rank {wait.rank} waits for {ranks_text(wait.absent)}, and no evidence shows which side is wrong"
        return Decided(klass, (), suspects, wait.call.group, wait.call, message, "low", tuple(last_of(job, suspects)))
    rank, call = next(iter(blocked.joined.items()))
    if call.shape.is_transfer:
        both = ranks_text(sorted((rank, job.peer(call))))
        message = f"{call.shape.op} #{call.seq} between {both} has both sides, and is not over"
        ground = ("sends that cross outside of a batch, a network or a GPU may be the cause: no recorder shows these",)
        return Decided(UNKNOWN, (), tuple(blocked.joined), call.group, call, message, "low", ground)
    message = f"all members made {call.shape.op} #{call.seq} on {job.groups[call.group].name} alike, and it is not over"
    ground = ("a root, a reduction, a network or a GPU may differ: no recorder shows these",)
    return Decided(UNKNOWN, (), tuple(blocked.joined), call.group, call, message, "low", ground)
