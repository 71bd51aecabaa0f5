"""Undecided: finds members that did not decide a label although other members did. A part of the agreement check.

A decision is a value that a rank records under a label (`Rank.decide`). If one member decides a label in a step, every
member that issued an op in this step has to decide it. So the check also finds misspelt labels and wrong communicators:

    rank 0   decides plan=8 on dp_cpu
    rank 1   decides plna=8 on dp_cpu       ->   DISAGREEMENT:PLAN, "did you mean 'plan'?"

A member may leave out a label that the program marks as `local`. For example, only the last stage of a pipeline has
results. But there are two limits. A member that decided it before and after a step has to decide it in that step. A
member that decided it in a step has to decide it as often as the others.

The check ignores a rank that hangs, died or raised. It may not have reached its decision, and another check finds the
cause. It also ignores a rank in an idle get, which may continue its step.

A label is the name that a program gives to a value in `Rank.decide`. If one rank decides another label instead, the
check merges both into one finding. The culprit is the minority. Of two members, it is the one whose label no other step
has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpsim.checks.finding import Culprit, Finding, Part, also, fact
from dpsim.checks.run_index import Entry, RunIndex, by_step, decision, split
from dpsim.contract.kinds import ENDS, SILENT
from dpsim.contract.ops import DECISION_LOCAL, KIND, STEP
from dpsim.contract.words import nearest, short


class Undecided(NamedTuple):
    """The first step in which members decided a label less often than others.

    `counts` has the number of decisions of each member that had to decide, and `fewer` the members with too few.
    `entry` is the decision that these lack. `alone`: none of them decided the label in this step. `between`: one of
    them decided it in steps before and after.
    """

    communicator: str
    label: str
    step: int
    counts: dict[int, int]
    fewer: tuple[int, ...]
    entry: Entry
    alone: bool
    between: bool


def first_undecided(
    run_index: RunIndex, communicator: str, label: str, members: dict[int, list[Entry]]
) -> Undecided | None:
    local = any(entry.raw[DECISION_LOCAL] for entries in members.values() for entry in entries)
    steps = {rank: by_step(entries) for rank, entries in members.items() if entries or not local}
    for step in sorted({step for own in steps.values() for step in own}):
        counts = {
            rank: len(own.get(step, []))
            for rank, own in steps.items()
            if step in own or _between(own, step) or (not local and _takes_part(run_index, rank, step))
        }
        most = max(counts.values())
        fewer = tuple(rank for rank, count in counts.items() if count < most)
        if fewer:
            rank = next(rank for rank, count in counts.items() if count == most)
            entry = steps[rank][step][counts[fewer[0]]]
            alone = not any(counts[one] for one in fewer)
            between = alone and any(_between(steps[one], step) for one in fewer)
            return Undecided(communicator, label, step, counts, fewer, entry, alone, between)
    return None


def _between(own: Mapping[int, Sequence[Entry]], step: int) -> bool:
    """Returns whether a step lies between the first and the last step in which a rank decided a label."""
    return bool(own) and min(own) < step < max(own)


NO_PART = SILENT - {"decision"} | ENDS | {"thread"}


def _takes_part(run_index: RunIndex, rank: int, step: int) -> bool:
    if run_index.asleep(rank) and run_index.reached(rank) == step:
        return False
    return any(raw[STEP] == step and raw[KIND] not in NO_PART for raw in run_index.run.journals[rank])


def findings_of(run_index: RunIndex, undecided: Sequence[Undecided]) -> list[Finding]:
    """Returns one finding for each label. If a rank decided one label in place of another, one finding has both."""
    findings, reported = [], set[tuple[str, str]]()
    for one in sorted(undecided, key=lambda one: -max(one.counts.values()) * (len(one.counts) - len(one.fewer))):
        if (one.communicator, one.label) in reported:
            continue
        instead = _instead(run_index, one, undecided)
        if instead is not None:
            reported.add((instead.communicator, instead.label))
        findings.append(_finding(run_index, one, instead))
    return findings


def _instead(run_index: RunIndex, one: Undecided, undecided: Sequence[Undecided]) -> Undecided | None:
    """Returns what the members without a label decided instead, or None.

    It is the same label on another communicator, or a label of nearly the same spelling.
    """
    others = [
        other
        for other in undecided
        if other is not one and other.step == one.step and other.alone and other.entry.rank in one.fewer and one.alone
    ]
    same = [other for other in others if other.label == one.label]
    alike = nearest(one.label, [other.label for other in others if other.communicator == one.communicator])
    spelt = [other for other in others if other.communicator == one.communicator and other.label in alike]
    return next(iter([*same, *spelt]), None)


def _finding(run_index: RunIndex, one: Undecided, instead: Undecided | None) -> Finding:
    decided, parted = decision(one.entry), split(one.counts)
    rank = next(rank for rank, count in one.counts.items() if count == max(one.counts.values()))
    culprit = Culprit(parted[1][0], one.step, one.label, decided.where) if parted else None
    details = [fact("decided_times", rank=member, number=count) for member, count in one.counts.items()]
    hint: Part = ""
    if instead is not None:
        entry, other = instead.entry, decision(instead.entry)
        meant = repr(one.label) if other.site != one.label else one.communicator
        on = instead.communicator if instead.communicator != one.communicator else ""
        hint = fact("decided_instead", rank=entry.rank, label=other.site, on=on, where=other.where, meant=meant)
        odd = parted[1] == [entry.rank] if parted else _is_new(run_index, one, instead)
        culprit = Culprit.of(entry.rank, other) if odd else culprit
    did_not = fact(
        "did_not_decide",
        ranks=one.fewer,
        communicator=one.communicator,
        label=one.label,
        step=one.step,
        alone=one.alone,
        rank=rank,
        value=short(decided.value),
        where=decided.where,
    )
    return Finding(
        check="agreement",
        klass=f"DISAGREEMENT:{one.label.upper()}",
        message=also(did_not, hint, _rule(one) if instead is None else fact("must_decide", local=False)),
        culprit=culprit,
        position=run_index.position(one.entry),
        details=tuple(details),
    )


def _rule(one: Undecided) -> Part:
    """Returns the rule that a finding without a misspelt label shows, with what the user can do.

    A trace does not record which labels are local, so the sentence about a gap is true of all labels.
    """
    return also(fact("no_gap"), fact("of_request")) if one.between else fact("must_decide", local=one.alone)


def _is_new(run_index: RunIndex, one: Undecided, instead: Undecided) -> bool:
    """Returns whether the rank decided the right label in another step, and the wrong label occurs only in this one."""
    right = run_index.decisions[one.communicator, one.label][instead.entry.rank]
    wrong = run_index.decisions[instead.communicator, instead.label]
    return bool(right) and {entry.step for entries in wrong.values() for entry in entries} == {one.step}
