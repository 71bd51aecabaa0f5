"""Agreed result: whether a majority of ranks is right, if all ranks received one result before they decided.

    rank 0          agree -> result X    decides plan = NONE
    ranks 1, 2      agree -> result X    decide plan = FULL        no majority counts: ranks 1, 2 are alike otherwise

Ranks that agree first have to decide by the result alone. A rank that decides by its own state instead departs, and
so does each rank in the same state. For example, all idle ranks may use their own padding. So the number of ranks on a
side proves nothing. These rules replace the majority, in this order:

1. In another step, all collectives before gave the same results, and the ranks decided alike. A rank that now decides
   otherwise departs. If the ranks received a new value in this step (`new_values`), no rank does. Without a majority,
   the results must differ in some step: a constant decides nothing.
2. One side has members in different states, and still decides alike. The other side has only one state, so it departs.
3. Both sides have members in different states, or two ranks in one state are on different sides. Then the state does
   not explain the sides, and the majority is right.

Of calls, this concerns count and sizes alone. No agreement decides an operation, dtype, reduction or root, so there
the majority is right. If no rule decides, no rank is the culprit. The state of a rank is what it did in the step before
the agreement.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.checks.finding import Part, fact
from dpsim.checks.new_values import new_value
from dpsim.checks.run_index import SIGNATURE, Entry, RunIndex, Signature, first_difference, split
from dpsim.contract.kinds import MEETS, SHARED
from dpsim.contract.ops import (
    ADDRESS,
    COMMUNICATOR,
    COUNT,
    DECISION_COMMUNICATOR,
    DECISION_VALUE,
    KIND,
    LEARNED_OUTCOME,
    SEQ,
    SITE,
    STEP,
    THREAD,
    RawRecord,
)

UNSEEN = SHARED | {"take", "ask"}
"""Kinds of record that are no part of a rank's state, because their number depends on the schedule."""

Call: TypeAlias = tuple[str, int]
"""A collective: the communicator and the number of the call."""


class Agreement(NamedTuple):
    """The last collective of a step whose result all ranks received, at `site`. `states` has the state of each rank
    before it. `results` has the sites and results of all these collectives of the step, in order.
    """

    site: str
    results: tuple[tuple[str, Hashable], ...]
    states: dict[int, frozenset[Hashable]]


class Ruling(NamedTuple):
    """The ranks that depart from an agreement, in rank order; empty if no rule decides. `why` is the reason.

    `alike`: no rule decides, and ranks of different sides are in one state. So the state does not explain the sides.
    """

    odd: tuple[int, ...]
    why: Part
    alike: bool = False


def ruling(run_index: RunIndex, here: Mapping[int, Entry], values: Mapping[int, Hashable]) -> Ruling | None:
    """Returns which ranks depart, given the op at which they differ and the value of each.

    None if the ranks received no common result in this step before. Then the majority counts.
    """
    agreement = agreement_before(run_index, here)
    if agreement is None:
        return None
    before = _decided_before(run_index, here, agreement, split(dict(values)) is None)
    if before is not None and before[1] in values.values():
        step, value = before
        new = new_value(run_index, next(iter(here.values())).step, {rank: one.at for rank, one in here.items()})
        if new:
            return Ruling((), new)
        odd = tuple(rank for rank in sorted(values) if values[rank] != value)
        right = tuple(rank for rank in sorted(values) if values[rank] == value)
        then = {"ranks": (*sorted(values),), "right": right}
        return Ruling(odd, fact("decided_alike", step=step, site=agreement.site, **then))
    states: dict[Hashable, set[frozenset[Hashable]]] = {}
    for rank, value in values.items():
        states.setdefault(value, set()).add(agreement.states[rank])
    mixed = [value for value, some in states.items() if len(some) > 1]
    if len(mixed) == 1:
        followers = [rank for rank, value in values.items() if value == mixed[0]]
        odd = tuple(sorted({*values} - {*followers}))
        return Ruling(odd, fact("alike_after", ranks=(*followers,), site=agreement.site))
    parted = split(dict(values)) if mixed else None
    if parted is not None:
        return Ruling(tuple(parted[1]), "")
    alike = len({*agreement.states.values()}) < len(states)
    most = split(dict(values)) is not None  # of calls, `majority` asks only if there is one
    return Ruling((), fact("same_result", site=agreement.site, majority=most), alike)


def majority(
    run_index: RunIndex, here: Mapping[int, Sequence[Entry]], calls: dict[int, tuple[Signature, ...]]
) -> tuple[tuple[list[int], list[int]] | None, Part]:
    """Returns (followers, others) of members that made different calls `here` in a step, by their signatures `calls`,
    and the reason. The reason is empty if the number of followers decides.

    None without a majority, or if a common result before makes it worthless. The rules need equally many calls of all
    members, and calls that differ in count or sizes. A call may also differ for another reason, so a majority in one
    state counts.
    """
    parted = split(calls)
    if parted is None or len({len(own) for own in calls.values()}) > 1:
        return parted, ""
    index = first_difference([*calls.values()])
    assert index is not None
    if not _may_follow_from_plan([own[index] for own in calls.values()]):
        return parted, ""
    ruled = ruling(run_index, {rank: here[rank][index] for rank in calls}, calls)
    if ruled is None or ruled.alike:
        return parted, ""
    followers = [rank for rank in calls if rank not in ruled.odd]
    return ((followers, [*ruled.odd]) if ruled.odd else None), ruled.why


def _may_follow_from_plan(calls: Sequence[Signature]) -> bool:
    """Returns whether calls of one operation differ in count or sizes. Ranks agree on these, and not on the others."""
    named = [dict(zip(SIGNATURE, call, strict=False)) for call in calls]
    plans = [(call.get("count"), call.get("sizes")) for call in named]
    return len({call["op"] for call in named}) == 1 and len({*plans}) > 1


def agreement_before(run_index: RunIndex, here: Mapping[int, Entry]) -> Agreement | None:
    """Returns the last collective of the step whose result each of these ranks received before its op, or None."""
    received = {rank: _results_before(run_index, entry) for rank, entry in here.items()}
    first, *rest = received.values()
    common = [
        call
        for call, (_, value) in first.items()
        if rest and all(call in own and own[call][1] == value for own in rest)
    ]
    if not common:
        return None
    common.sort(key=lambda call: max(own[call][0].at for own in received.values()))
    entries = {rank: own[common[-1]][0] for rank, own in received.items()}
    results = tuple((first[call][0].raw[SITE], first[call][1]) for call in common)
    return Agreement(results[-1][0], results, {rank: _state(run_index, entry) for rank, entry in entries.items()})


def _results_before(run_index: RunIndex, until: Entry) -> dict[Call, tuple[Entry, Hashable]]:
    """Returns the collectives of the step before an op, with the value that the host received next on this thread.

    For a collective on a stream, this is the value of the next read.
    """
    journal, found = run_index.run.journals[until.rank], dict[Call, tuple[Entry, Hashable]]()
    last: Entry | None = None
    reads: set[tuple[object, ...]] = set()
    for at in range(until.at):
        raw = journal[at]
        if raw[STEP] != until.step or raw[THREAD] != until.raw[THREAD]:
            continue
        if raw[KIND] == "collective":
            last, reads = Entry(until.rank, at, raw) if raw[COUNT] else None, {raw[ADDRESS]}
        elif raw[KIND] == "read":
            reads.add(raw[ADDRESS])
        elif raw[KIND] == "learned" and raw[ADDRESS] in reads and last is not None:
            found[last.raw[COMMUNICATOR], last.raw[SEQ]] = last, raw[LEARNED_OUTCOME]
            last = None
    return found


def _state(run_index: RunIndex, until: Entry) -> frozenset[Hashable]:
    journal = run_index.run.journals[until.rank][: until.at]
    return frozenset(_what(raw) for raw in journal if raw[STEP] == until.step and raw[KIND] not in UNSEEN)


def _what(raw: RawRecord) -> Hashable:
    more = raw[DECISION_VALUE] if raw[KIND] == "decision" else None
    return raw[KIND], raw[SITE], raw[COUNT] if raw[KIND] in MEETS else more


def _decided_before(
    run_index: RunIndex, here: Mapping[int, Entry], agreement: Agreement, varied: bool
) -> tuple[int, Hashable] | None:
    """Returns a step in which the ranks received the same results and all decided one value, and this value.

    None without such a step, or if such steps have different values: then the result alone does not decide. None as
    well with `varied`, if all steps have the same results.
    """
    first = next(iter(here.values()))
    if first.raw[KIND] != "decision":
        return None
    members = run_index.decisions[first.raw[DECISION_COMMUNICATOR], first.raw[SITE]]
    found, results = list[tuple[int, Hashable]](), {agreement.results}
    for step in sorted({entry.step for rank in here for entry in members[rank]}):
        others = {rank: [one for one in members[rank] if one.step == step] for rank in here}
        if step == first.step or any(len(own) != 1 for own in others.values()):
            continue
        there = {rank: own[0] for rank, own in others.items()}
        values = [*dict.fromkeys(entry.raw[DECISION_VALUE] for entry in there.values())]
        same = agreement_before(run_index, there)
        results |= {same.results} if same is not None else set()
        if len(values) == 1 and same is not None and same.results == agreement.results:
            found.append((step, *values))
    known = len(results) > 1 or not varied
    return found[0] if known and len({value for _, value in found}) == 1 else None
