"""Deciding: which ranks a difference or a wait is due to, and what says so.

    rank 2 made five calls where its peers stand in the sixth          ->  rank 2 left it out (a minority of one)
    rank 3 stands in a seventh call, and its peers made six            ->  rank 3 made one too many
    two ranks, and hidden comes once where it comes twice elsewhere    ->  who did that left it out

Each decision has a ground. Without one it has suspects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.job import Job
from dpsim.diagnose.dumps.partings import Parting, of_call
from dpsim.diagnose.dumps.standings import DumpWait, Standings
from dpsim.diagnose.dumps.usual import Departure, Usual, lone

LEFT_OUT, TOO_MANY = "HANG:COLLECTIVE:MISSING_RANK", "HANG:COLLECTIVE:EXTRA_CALL"
DEAD, ORDER, UNKNOWN = "HANG:COLLECTIVE:DEAD_RANK", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", "HANG:UNDECIDED"


class Decided(NamedTuple):
    """`ranks`: the culprits; without any, `suspects` are in question. `call`: one of theirs, or that of a peer."""

    klass: str
    ranks: tuple[int, ...]
    suspects: tuple[int, ...]
    group: str
    call: RecordedCall | None
    said: str
    confidence: Literal["high", "medium", "low"]
    ground: tuple[str, ...]


def decide_parting(job: Job, usual: Usual, parting: Parting) -> Decided:
    """Who is behind a difference."""
    if parting.odd:
        return _by_majority(job, usual, parting)
    by_habit = _by_habit(job, usual, parting.group, parting.calls)
    if by_habit is not None:
        return _departed(job, by_habit, parting.calls, parting.klass)
    by_shape = _by_own_calls(job, usual, parting)
    if by_shape is not None:
        return by_shape
    name = job.groups[parting.group].name
    said = f"{ranks_text(parting.calls)} made different calls on {name}, and nothing says which is right"
    call = next(iter(parting.calls.values()))
    return Decided(parting.klass, (), tuple(parting.calls), parting.group, call, said, "low", parting.ground)


def _by_majority(job: Job, usual: Usual, parting: Parting) -> Decided:
    odd, group = parting.odd, job.groups[parting.group]
    mine = parting.calls[odd[0]]
    theirs = next(call for rank, call in parting.calls.items() if rank not in odd)
    klass, did = _shifted(job, parting, odd[0], mine, theirs)
    where = f"#{mine.seq} on {group.name}"
    others = ranks_text(rank for rank in parting.calls if rank not in odd)
    said = f"{ranks_text(odd)} {did} at {where}, where {others} called {of_call(theirs)}"
    left_out = klass == LEFT_OUT
    return Decided(klass, odd, (), parting.group, theirs if left_out else mine, said, "high", parting.ground)


def _shifted(job: Job, parting: Parting, odd: int, mine: RecordedCall, theirs: RecordedCall) -> tuple[str, str]:
    """The class, and what the odd one did: left a call out, made one too many, or called something else."""
    other = next(rank for rank in parting.calls if rank not in parting.odd)
    own, those = ([of_call(one) for one in job.groups[parting.group].calls[rank]] for rank in (odd, other))
    first = job.groups[parting.group].calls
    at = next(i for i, one in enumerate(first[odd]) if one.seq == mine.seq)
    to = next(i for i, one in enumerate(first[other]) if one.seq == theirs.seq)
    left_out, too_many = _alike(own[at:], those[to + 1 :]), _alike(own[at + 1 :], those[to:])
    if "OP" in parting.klass or max(left_out, too_many) > 1:
        if left_out > too_many and left_out > _alike(own[at + 1 :], those[to + 1 :]):
            return LEFT_OUT, f"left out {of_call(theirs)}, and made {of_call(mine)},"
        if too_many > left_out and too_many > _alike(own[at + 1 :], those[to + 1 :]):
            return TOO_MANY, f"made {of_call(mine)}"
    return parting.klass, f"called {of_call(mine)}"


def _alike(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _by_habit(job: Job, usual: Usual, group: str, at: Mapping[int, RecordedCall]) -> Departure | None:
    """The departure of one of these ranks from what is usual, before its call and on a group of this kind."""
    kind = job.groups[group].kind
    found = {}
    for rank, call in at.items():
        if rank in job.calls:
            index = _index(job, rank, call)
            own = usual.departures(rank)
            found[rank] = [one for one in own if one.token.kind == kind and one.at <= index + 1]
    return _only(found) or _only(lone(found))


def _only(departures: Mapping[int, list[Departure]]) -> Departure | None:
    """The last departure of the one rank that has any."""
    own = [some for some in departures.values() if some]
    return own[0][-1] if len(own) == 1 else None


def _index(job: Job, rank: int, call: RecordedCall) -> int:
    return next(at for at, one in enumerate(job.calls[rank]) if one is call or one == call)


def _departed(job: Job, departure: Departure, calls: Mapping[int, RecordedCall], klass: str) -> Decided:
    rank = departure.rank
    own = job.calls[rank]
    here = own[min(departure.at, len(own) - 1)]
    call = here if departure.more else next((one for one in own if one.place.line == departure.token.line), here)
    did = f"made {departure.token} once too often" if departure.more else f"left out {departure.token}"
    others = ranks_text(other for other in calls if other != rank)
    said = f"rank {rank} {did}; its calls and those of {others} meet wrongly from there on"
    return Decided(klass, (rank,), (), call.group, call, said, "medium", (departure.why,))


def _by_own_calls(job: Job, usual: Usual, parting: Parting) -> Decided | None:
    """The side whose call is not as others at its place are, behind an equal call or at all, where its peer's is."""
    for behind in (True, False):
        strange = {}
        for rank, call in parting.calls.items():
            peers = {
                (of_call(other).elements, of_call(other).dtype) for one, other in parting.calls.items() if one != rank
            }
            strange[rank] = _strange(job, usual, rank, call, behind, peers)
        odd = [rank for rank, why in strange.items() if why]
        if len(odd) == 1:
            call = parting.calls[odd[0]]
            said = f"rank {odd[0]} called {of_call(call)}, unlike its other calls there"
            ground = (strange[odd[0]], *parting.ground)
            return Decided(parting.klass, (odd[0],), (), parting.group, call, said, "medium", ground)
    return None


def _strange(
    job: Job, usual: Usual, rank: int, call: RecordedCall, behind: bool, peers: set[tuple[int | None, str]]
) -> str:
    """Why a call is unlike others at its place, which would fit `peers`; empty if it is not. `behind`: of those behind
    an equal call only.
    """
    at = _index(job, rank, call)

    def seen(who: int, index: int) -> tuple[object, ...]:
        before = (usual.tokens[who][index - 1], of_call(job.calls[who][index - 1])) if behind and index else ()
        return usual.tokens[who][index], before

    here = seen(rank, at)
    same = [
        of_call(one)
        for who, own in job.calls.items()
        for index, one in enumerate(own)
        if usual.tokens[who][index] == here[0] and one is not call and seen(who, index) == here
    ]
    mine, often = of_call(call), Counter(same).most_common(1)
    if (
        len(same) >= 2
        and often[0][1] == len(same)
        and often[0][0] != mine
        and {(often[0][0].elements, often[0][0].dtype)} == peers
    ):
        return f"{often[0][1]} other calls at this place are {often[0][0]}, this one is {mine}"
    kinds = {one.dtype for one in same}
    if len(same) >= 2 and len(kinds) == 1 and mine.dtype not in kinds and {kind for _, kind in peers} == kinds:
        return f"{len(same)} other calls at this place have the type {next(iter(kinds))}"
    return ""


def decide_waits(job: Job, usual: Usual, stands: Standings) -> Decided:
    """Who is behind waits, where all calls that met are the same."""
    if job.missing:
        return _dead(job, stands)
    concerned = {
        *stands.waits,
        *stands.joined,
        *(one for own in stands.waits.values() for w in own for one in w.absent),
    }
    by_habit = _only(lone({rank: usual.departures(rank) for rank in job.calls if rank in concerned}))
    for wait in _first_waits(stands):
        decided = _minority(job, usual, stands, wait)
        if decided is not None:
            if by_habit is not None and decided.confidence != "high" and decided.ranks != (by_habit.rank,):
                break
            return decided
    if by_habit is not None and stands.waits:
        wait = _first_waits(stands)[0]
        return _departed(job, by_habit, dict.fromkeys((wait.rank, *wait.absent), wait.call), _class_of(wait, by_habit))
    return _undecided(job, stands)


def _dead(job: Job, stands: Standings) -> Decided:
    awaited = {one for own in stands.waits.values() for wait in own for one in wait.absent}
    dead = tuple(rank for rank in job.missing if rank in awaited) or job.missing
    waits = [wait for own in stands.waits.values() for wait in own]
    wait = next((one for one in waits if {*dead} & {*one.absent}), waits[0] if waits else None)
    call = wait.call if wait is not None else next(iter(stands.joined.values()))
    said = f"{ranks_text(dead)} left no dump, and others wait"
    ground = (f"{ranks_text(job.missing)} left no dump, and {ranks_text(stands.waits)} wait",)
    klass = DEAD if wait is None else _dead_class(wait)
    sure: Literal["high", "low"] = "high" if awaited & {*dead} else "low"
    return Decided(klass, dead, (), call.group, call, said, sure, ground)


def _class_of(wait: DumpWait, departure: Departure) -> str:
    if wait.call.shape.is_transfer:
        return f"HANG:P2P:UNMATCHED_{wait.call.shape.op.upper()}"
    return TOO_MANY if departure.more else LEFT_OUT


def _dead_class(wait: DumpWait) -> str:
    op = wait.call.shape.op
    return {"send": "HANG:P2P:UNMATCHED_SEND", "recv": "HANG:P2P:UNMATCHED_RECV"}.get(op, DEAD)


def _first_waits(stands: Standings) -> list[DumpWait]:
    """A wait of each call, those first whose absent ranks wait for none."""
    first: dict[tuple[str, int, str], DumpWait] = {}
    for own in stands.waits.values():
        for wait in own[:1]:
            key = wait.call.group, wait.call.seq, wait.call.shape.op
            if wait.call.shape.is_transfer:
                key = wait.call.group, wait.rank, wait.call.shape.op
            first.setdefault(key, wait)
    return sorted(first.values(), key=lambda wait: (not {*wait.absent} & {*stands.roots}, wait.call.created))


def _minority(job: Job, usual: Usual, stands: Standings, wait: DumpWait) -> Decided | None:
    """The fewer of those that made a call and those that did not."""
    call, group = wait.call, job.groups[wait.call.group]
    absent = [rank for rank in wait.absent if rank in job.calls]
    came = [rank for rank in group.members if rank in job.calls and rank not in absent]
    if call.shape.is_transfer or len(absent) == len(came):
        return _by_habit_of_waits(job, usual, wait, came if not call.shape.is_transfer else [wait.rank], absent)
    name = f"{call.shape.op} #{call.seq} on {group.name}"
    if len(absent) < len(came):
        roots = [rank for rank in absent if rank in stands.roots] or absent
        stuck = [rank for rank in roots if rank in stands.waits]
        klass = ORDER if stuck and _at_first_calls(stands, stuck[0], wait) else LEFT_OUT
        did = "did not make" if not stuck else "left out, or will make later,"
        said = f"{ranks_text(roots)} {did} {name}; {ranks_text(came)} stand in it"
        ground = (f"{len(came)} of {len(came) + len(absent)} members made it", *_last_of(job, roots))
        return Decided(klass, tuple(roots), (), group.key, call, said, "high" if not stuck else "medium", ground)
    if len(came) == 1 or not any(rank in stands.waits for rank in absent):
        said = f"{ranks_text(came)} made {name}, which {ranks_text(absent)} did not make"
        ground = (f"{len(absent)} of {len(came) + len(absent)} members made no such call", *_last_of(job, came))
        return Decided(TOO_MANY, tuple(came), (), group.key, call, said, "medium", ground)
    return None


def _at_first_calls(stands: Standings, rank: int, wait: DumpWait) -> bool:
    """Whether a rank and those that wait for it stand in the first calls of two groups: then their order is in doubt.
    Later, a call left out is more likely.
    """
    own = stands.waits[rank][0]
    return wait.rank in own.absent and own.call.seq == 1 == wait.call.seq


def _by_habit_of_waits(job: Job, usual: Usual, wait: DumpWait, came: list[int], absent: list[int]) -> Decided | None:
    """Which of two sides departs from what is usual."""
    group = wait.call.group
    last = {rank: job.calls[rank][-1] for rank in (*came, *absent) if job.calls.get(rank)}
    last[wait.rank] = wait.call
    departure = _by_habit(job, usual, group, last)
    if departure is None:
        return None
    return _departed(job, departure, last, _class_of(wait, departure))


def _last_of(job: Job, ranks: Iterable[int]) -> list[str]:
    """The last calls of ranks."""
    told = []
    for rank in list(ranks)[:2]:
        own = job.calls.get(rank)
        if own:
            call = own[-1]
            where = f" at {call.place.line}" if call.place.line else ""
            state = "over" if call.over else "not over"
            told.append(
                f"the last call of rank {rank} is {call.shape.op} #{call.seq} on {job.groups[call.group].name}{where}, {state}"
            )
    return told


def _undecided(job: Job, stands: Standings) -> Decided:
    circle = stands.circle
    if circle:
        group = stands.waits[circle[0]][0].call
        groups = {stands.waits[rank][0].call.group for rank in circle}
        transfers = {stands.waits[rank][0].call.shape.op for rank in circle}
        klass = ORDER if len(groups) > 1 else UNKNOWN
        if transfers <= {"send"} or transfers <= {"recv"}:
            klass = "HANG:P2P:CROSSED_SENDS" if transfers <= {"send"} else "HANG:P2P:CROSSED_RECVS"
        said = f"{ranks_text(circle)} wait for each other, and nothing says which of them is wrong"
        return Decided(klass, (), circle, group.group, group, said, "low", ())
    if stands.waits:
        wait = _first_waits(stands)[0]
        hidden = {*wait.absent} <= {*job.hidden} and not wait.call.shape.is_transfer
        suspects = tuple(sorted({*wait.absent} if hidden else {wait.rank, *wait.absent}))
        klass = _dead_class(wait) if wait.call.shape.is_transfer else UNKNOWN
        said = f"rank {wait.rank} waits for {ranks_text(wait.absent)}, and nothing says which side is wrong"
        return Decided(klass, (), suspects, wait.call.group, wait.call, said, "low", tuple(_last_of(job, suspects)))
    call = next(iter(stands.joined.values()))
    said = f"all members made {call.shape.op} #{call.seq} on {job.groups[call.group].name} alike, and it is not over"
    ground = ("a root, a reduction, a network or a GPU may differ: no recorder shows these",)
    return Decided(UNKNOWN, (), tuple(stands.joined), call.group, call, said, "low", ground)
