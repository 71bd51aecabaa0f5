"""Sides: of ranks that made different calls in one step, which are right, and by which rule. A part of the ledger.

    rank 0      agree, agree
    ranks 1, 2  agree                  rank 0 is wrong: "2 of 3 ranks made 1 call there in step 4"

The docstring of `ledger` lists the rules in their order. A report prints the reason if the finding has no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpsim.checks.agreed_result import majority
from dpsim.checks.finding import Fact, Part, fact
from dpsim.checks.new_values import new_value
from dpsim.checks.one_step_more import one_step_more
from dpsim.checks.run_index import Entry, RunIndex, Signature, first_difference
from dpsim.checks.usual_step import UsualStep


class Sides(NamedTuple):
    """The ranks that are right and those that are wrong, and the reason.

    If no rule decides, both lists are empty, and `why` is the reason that a majority proves nothing, or empty.
    """

    right: list[int]
    wrong: list[int]
    why: Part


def sides_of(
    run_index: RunIndex,
    communicator: str,
    here: Mapping[int, Sequence[Entry]],
    calls: dict[int, tuple[Signature, ...]],
    usual: UsualStep,
    step: int,
) -> Sides:
    """Returns the sides of the ranks that made different calls `here` in a step, given their signatures `calls`."""
    index = first_difference([*calls.values()]) or 0
    until = {rank: here[rank][index].at for rank in calls if index < len(here[rank])}
    idle = [rank for rank in calls if not usual.took_part(rank, step)]
    why: Part = fact("issued_nothing", ranks=(*idle,), step=step)
    if not idle:  # ranks without a call although every earlier step has one, even if they are the majority
        number = usual.number_of_calls(communicator, step)
        if {len(own) for own in calls.values() if own} == {number}:
            idle = [rank for rank, own in calls.items() if not own]
            why = fact("every_step_has", communicator=communicator, number=number)
    busy = [rank for rank in calls if rank not in idle]
    more = one_step_more(run_index, [*run_index.collectives[communicator]], step) if idle else ""
    if more:
        return Sides([], [], more)
    if idle and len({calls[rank] for rank in busy}) == 1:
        new = "" if any(not usual.took_part(rank, step) for rank in idle) else new_value(run_index, step, until)
        return Sides([], [], new) if new else Sides(busy, idle, why)
    parted, why = majority(run_index, here, calls)
    if parted is not None:
        right, wrong = parted
        number = usual.number_of_calls(communicator, step, least=1)
        if not why and {len(calls[rank]) for rank in wrong} == {number} != {len(calls[rank]) for rank in right}:
            return Sides([], [], fact("votes_against", votes=_votes(calls, right, wrong, step), number=number))
        return Sides(right, wrong, why or _votes(calls, right, wrong, step))
    odd = usual.odd_one(communicator, step, {rank: [*here[rank]] for rank in calls})
    others = [rank for rank in calls if rank != odd]
    if odd is not None and len({calls[rank] for rank in others}) == 1:
        new = new_value(run_index, step, until)
        if new:
            return Sides([], [], new)
        return Sides(others, [odd], fact("departs_alone", rank=odd))
    return Sides([], [], why)


def _votes(calls: Mapping[int, Sequence[Signature]], right: Sequence[int], wrong: Sequence[int], step: int) -> Fact:
    number, other = len(calls[right[0]]), len(calls[wrong[0]])
    did = fact("made_it") if number > other else fact("made_same_call")
    if number < other:
        did = fact("made_there", number=number) if number else fact("left_it_out")
    return fact("votes", alike=len(right), ranks=len(calls), did=did, step=step)
