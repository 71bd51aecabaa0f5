"""Agreement: checks that the ranks of a group decide equal values, for example equal batch sizes (invariant I-DP-1).

A protocol records a decision with `rank.decide(label, value, kind)`. The check compares decisions of one label within a
step, in order, over all members of the group. It reports the first difference of each label. If the decisions have a
majority, the rank outside the majority is the culprit. Ranks that received a common result before may be wrong as a
majority, too (`agreed_result`).

    rank 0 decides plan=(False, (8, 8), 2), rank 1 decides plan=(False, (8, 4), 2)   ->   DISAGREEMENT:PLAN

If all programs ended, a member that decided less often than the others is a violation as well (`undecided`).
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.agreed_result import ruling
from dpsim.checks.finding import Culprit, Fact, Finding, Part, fact
from dpsim.checks.received import received_apart
from dpsim.checks.run_index import Entry, RunIndex, by_step, decision, first_difference, split
from dpsim.checks.undecided import Undecided, findings_of, first_undecided
from dpsim.contract.differing import contrasted
from dpsim.contract.ops import DECISION_VALUE, STEP, Decision


def check(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for each label of each communicator."""
    findings, undecided = [], list[Undecided]()
    for (communicator, label), members in run_index.decisions.items():
        rows = [[(entry.raw[STEP], entry.raw[DECISION_VALUE]) for entry in entries] for entries in members.values()]
        if first_difference(rows) is not None:
            finding = _first(run_index, communicator, label, members)
            if finding is not None:
                findings.append(finding)
            elif run_index.run.finished:
                left = first_undecided(run_index, communicator, label, members)
                undecided += [] if left is None else [left]
    return findings + findings_of(run_index, undecided)


def _first(run_index: RunIndex, communicator: str, label: str, members: dict[int, list[Entry]]) -> Finding | None:
    steps = {rank: by_step(entries) for rank, entries in members.items()}
    for step in sorted({step for own in steps.values() for step in own}):
        rounds = max(len(own.get(step, [])) for own in steps.values())
        for index in range(rounds):
            here = {rank: own[step][index] for rank, own in steps.items() if index < len(own.get(step, []))}
            values = {rank: entry.raw[DECISION_VALUE] for rank, entry in here.items()}
            if len(set(values.values())) > 1:
                return _finding(run_index, communicator, label, here, values)
    return None


def _finding(
    run_index: RunIndex, communicator: str, label: str, here: dict[int, Entry], values: dict[int, object]
) -> Finding:
    sides: dict[object, list[int]] = {}
    for rank, value in values.items():
        sides.setdefault(value, []).append(rank)
    odd, why = _departs(run_index, here, values)
    followers = [rank for rank in here if rank not in odd]
    reference = here[followers[0]]
    odd_decision = decision(here[odd[0]] if odd else reference)
    texts = contrasted(label, list(sides))
    decided = [
        fact("decided", ranks=tuple(ranks), value=text.removeprefix(f"{label} = "))
        for text, ranks in zip(texts, sides.values(), strict=True)
    ]
    return Finding(
        check="agreement",
        klass=f"DISAGREEMENT:{label.upper()}",
        message=fact(
            "disagree",
            communicator=communicator,
            label=label,
            step=odd_decision.step,
            decided=tuple(decided),
            why=None if odd or not why else why,
        ),
        culprit=_culprit(odd, odd_decision) if odd else None,
        position=run_index.position(reference),
        details=tuple(
            fact("decided_at", ranks=tuple(ranks), value=text, where=decision(here[ranks[0]]).where)
            for text, ranks in zip(texts, sides.values(), strict=True)
        ),
        ground=(why,) if why and odd else (),
        why=_votes(communicator, sides[reference.raw[DECISION_VALUE]], here) if odd else why,
    )


def _departs(run_index: RunIndex, here: dict[int, Entry], values: dict[int, object]) -> tuple[tuple[int, ...], Part]:
    """Returns the ranks that departed, and why.

    Without a common result before, they are the first of a minority. The same is true if ranks in one state are on
    different sides. If they differ by what they received from other actors, no rank departs (`received`).
    """
    ruled, parted = ruling(run_index, here, values), split(values)
    if ruled is not None and not (ruled.alike and parted):
        odd, why, most = ruled.odd, ruled.why, len(ruled.odd)
    else:
        odd, why, most = tuple(parted[1]) if parted else (), "", 1
    until = {rank: entry.at for rank, entry in here.items()}
    received = received_apart(run_index, until, next(iter(here.values())).step, odd)
    return ((), received) if received else (odd[:most], why)


def _votes(communicator: str, majority: list[int], here: dict[int, Entry]) -> Fact:
    return fact("majority", communicator=communicator, alike=len(majority), ranks=len(here))


def _culprit(odd: tuple[int, ...], odd_decision: Decision) -> Culprit:
    culprit = Culprit.of(odd[0], odd_decision)
    return replace(culprit, ranks=odd) if len(odd) > 1 else culprit
