"""Deciding: names the culprit of calls that paired up although they differ, with the evidence.

    rank 0 called broadcast where three ranks called all_reduce        ->  rank 0, by majority
    two ranks, and hidden occurs once, and twice elsewhere             ->  this rank left it out
    two ranks, and one sends int64, and int32 elsewhere                ->  that one

Every culprit has evidence in the result. Without evidence, the result only lists the ranks in question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.alike import odd_rank
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.explanation import Confidence
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.partings import CallParting, of_call
from dpsim.diagnose.dumps.usual import Departure, Usual, lone

LEFT_OUT, TOO_MANY = "HANG:COLLECTIVE:MISSING_RANK", "HANG:COLLECTIVE:EXTRA_CALL"
DEAD, ORDER, UNKNOWN = "HANG:COLLECTIVE:DEAD_RANK", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", "HANG:UNDECIDED"


class Decided(NamedTuple):
    """The result of a decision.

    `ranks` are the culprits. If there are none, one of `suspects` is the culprit. `call` is a call of the culprit, or
    that of a peer. `majority`: the other members of the group made equal calls.
    """

    klass: str
    ranks: tuple[int, ...]
    suspects: tuple[int, ...]
    group: str
    call: RecordedCall | None
    said: str
    confidence: Confidence
    ground: tuple[str, ...]
    majority: bool = False


def decide_parting(job: DumpedJob, usual: Usual, parting: CallParting) -> Decided:
    """Returns the culprit of a difference between calls."""
    if parting.odd:
        return _by_majority(job, usual, parting)
    by_habit = by_habit_at(job, usual, parting.group, parting.calls)
    if by_habit is not None:
        collective = not next(iter(parting.calls.values())).shape.is_transfer
        klass = (TOO_MANY if by_habit.more else LEFT_OUT) if collective else parting.klass
        return departed(job, by_habit, parting.calls, klass)
    odd = odd_rank(job, usual)
    if odd is not None and odd.rank in parting.calls:
        token = usual.tokens[odd.rank][odd.at] if odd.more else odd.theirs
        departure = Departure(odd.rank, odd.at, token, odd.more, odd.why)
        return departed(job, departure, parting.calls, parting.klass)
    by_shape = _by_own_calls(job, usual, parting)
    if by_shape is not None:
        return by_shape
    name = job.groups[parting.group].name
    said = f"{ranks_text(parting.calls)} made different calls on {name}, and no evidence shows which is right"
    call = next(iter(parting.calls.values()))
    return Decided(parting.klass, (), tuple(parting.calls), parting.group, call, said, "low", parting.ground)


def _by_majority(job: DumpedJob, usual: Usual, parting: CallParting) -> Decided:
    odd, group = parting.odd, job.groups[parting.group]
    mine = parting.calls[odd[0]]
    theirs = next(call for rank, call in parting.calls.items() if rank not in odd)
    klass, did = _shifted(job, parting, odd[0], mine, theirs)
    if klass == "MISMATCH:COLLECTIVE:OP":
        at = _index(job, odd[0], mine)
        near = [one for one in usual.departures(odd[0]) if one.at == at]
        if near and not near[0].more and near[0].token.op == theirs.shape.op:
            klass, did = LEFT_OUT, f"left out {of_call(theirs)}, and made {of_call(mine)},"
    where = f"#{mine.seq} on {group.name}"
    others = ranks_text(rank for rank in parting.calls if rank not in odd)
    said = f"{ranks_text(odd)} {did} at {where}, where {others} called {of_call(theirs)}"
    left_out = klass == LEFT_OUT
    call = theirs if left_out else mine
    return Decided(klass, odd, (), parting.group, call, said, "medium", parting.ground, majority=True)


def _shifted(
    job: DumpedJob, parting: CallParting, odd: int, mine: RecordedCall, theirs: RecordedCall
) -> tuple[str, str]:
    """Returns the class, and what the odd rank did: it left out a call, made one too many, or made another call."""
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


def by_habit_at(job: DumpedJob, usual: Usual, group: str, at: Mapping[int, RecordedCall]) -> Departure | None:
    """Returns the last departure from the usual order before these calls, if only one of the ranks has any; otherwise
    None.

    Only departures in groups of the same kind as `group` count.
    """
    kind = job.groups[group].kind
    found = {}
    for rank, call in at.items():
        if rank in job.calls:
            index = _index(job, rank, call)
            own = usual.departures(rank)
            found[rank] = [one for one in own if one.token.kind == kind and one.at <= index + 1]
    return only(found) or only(lone(found))


def only(departures: Mapping[int, list[Departure]]) -> Departure | None:
    """Returns the last departure of the only rank with departures, or None."""
    own = [some for some in departures.values() if some]
    return own[0][-1] if len(own) == 1 else None


def _index(job: DumpedJob, rank: int, call: RecordedCall) -> int:
    return next(at for at, one in enumerate(job.calls[rank]) if one is call or one == call)


def departed(job: DumpedJob, departure: Departure, calls: Mapping[int, RecordedCall], klass: str) -> Decided:
    """Returns the decision against a rank that departed from the usual order."""
    rank = departure.rank
    own = job.calls[rank]
    here = own[min(departure.at, len(own) - 1)]
    alike = (one for one in (*calls.values(), *own) if one.place.line == departure.token.line)
    call = here if departure.more else next(alike, here)  # of a call that it left out, the number is that of a peer
    did = f"made {departure.token} once too often" if departure.more else f"left out {departure.token}"
    if departure.or_left_out:
        did += f", or left out {departure.or_left_out} between two of them"
    others = ranks_text(other for other in calls if other != rank)
    said = f"rank {rank} {did}; its calls and those of {others} meet wrongly from there on"
    return Decided(klass, (rank,), (), call.group, call, said, "medium", (departure.why,))


def _by_own_calls(job: DumpedJob, usual: Usual, parting: CallParting) -> Decided | None:
    """Returns the decision against the side whose call differs from its other calls at this line, if its peer's does
    not.

    A first try compares only calls that follow an equal call. A second one compares all.
    """
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
    job: DumpedJob, usual: Usual, rank: int, call: RecordedCall, behind: bool, peers: set[tuple[int | None, str]]
) -> str:
    """Returns the reason why a call differs from the others at its line, which would match `peers`. Empty if it does
    not.

    `behind`: only calls that follow an equal call count.
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
