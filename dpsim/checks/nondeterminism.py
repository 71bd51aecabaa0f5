"""Nondeterminism: compares a run with its repetition along the same schedule. Both must have the same records.

    finding = nondeterminism.check(first.journals, second.journals)

The explorer of schedules depends on this. It proves a property of a program by running every schedule. The proof is
valid only if the schedule alone decides what the program does.

The check finds the first record that differs: the earliest step, and within a step the earliest op of a rank. If one
journal of a rank is only shorter than the other, the rank probably waits for another rank. So this difference counts
only if there is no other. The second run may stop because its schedule no longer fits. Then the check compares the
records up to this place.

`shared_state` makes a related finding: a rank behaves differently if it runs alone in a fresh process (`dpsim.alone`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsim.checks.finding import Culprit, Fact, Finding, Part, fact, indented
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, STEP, RawRecord, as_record

Journals = Sequence[Sequence[RawRecord]]

CAUSES = (fact("likely_causes"), indented(fact("may_outlive_run")), indented(fact("may_be_shared")))

SHARED = (
    fact("one_process"),
    indented(fact("may_leave_something")),
    indented(fact("may_decide_by_process")),
    fact("send_what_to_agree_on"),
)

SHARED_STATE = "NONDETERMINISM:SHARED_STATE"

NAMED = 12
"""The largest number of shared objects that a finding lists."""


def check(first: Journals, second: Journals, stopped: str = "") -> Finding | None:
    """Returns a finding for the first difference, or None.

    `stopped` is the reason why the second run did not reach its end.
    """
    places = [
        place
        for rank, (one, other) in enumerate(zip(first, second, strict=True))
        if one != other and (place := _difference(rank, one, other, bool(stopped))) is not None
    ]
    if not places:
        return of(fact("schedule_does_not_fit", why=stopped)) if stopped else None
    _, _, at, rank = min(places)
    one, other = (journal[rank][at] if at < len(journal[rank]) else None for journal in (first, second))
    found = one or other
    assert found is not None
    record = as_record(found)
    return Finding(
        check="nondeterminism",
        klass="NONDETERMINISM:REPEAT",
        message=fact("repeated_run_differs", rank=rank, step=record.step),
        culprit=Culprit.of(rank, record),
        position=(record.step, at),
        details=(fact("did_first", did=_did(one)), fact("did_again", did=_did(other)), *CAUSES),
    )


def of(message: Part) -> Finding:
    """Returns a finding for a difference that no record shows."""
    return Finding("nondeterminism", "NONDETERMINISM:REPEAT", message, None, (0, 0), CAUSES)


def unseeded(generator: Part, culprit: Culprit | None) -> Finding:
    """Returns a finding for a run that used a random generator without a seed, although its repetition was equal.

    `culprit` is the rank, if it is known.
    """
    rank, step = (None, None) if culprit is None else (culprit.rank, culprit.step)
    message = fact("unseeded", rank=rank, step=step, generator=generator)
    position = (0, 0) if culprit is None else (culprit.step, 0)
    return Finding("nondeterminism", "NONDETERMINISM:RANDOM", message, culprit, position, CAUSES)


def shared_state(
    rank: int, at: int, among: RawRecord | None, alone: RawRecord | None, shared: Sequence[str]
) -> Finding:
    """Returns a finding for a rank that behaves differently if it runs alone in its process.

    `among` is its first different record in the process that all ranks share, and `alone` that in its own process.
    `shared` lists objects of the program's module whose contents differ between the two processes.
    """
    found = alone if among is None or among[KIND] == "finished" else among
    record = as_record(found or among or ())
    return Finding(
        check="nondeterminism",
        klass=SHARED_STATE,
        message=fact("alone_differs", rank=rank, step=record.step),
        culprit=Culprit.of(rank, record),
        position=(record.step, at),
        details=(
            fact("did_with_others", did=_did(among)),
            fact("did_alone", did=_did(alone)),
            *[fact("shared", names=tuple(shared[:NAMED]))] * bool(shared),
            *SHARED,
        ),
    )


def elsewhere(first: Journals, again: Journals, differs: str, fails: Finding) -> Finding:
    """Returns a finding for a run that fails, `fails`, where `differs` between its ranks, and held where it did not."""
    seen = fact("fails_with_it", klass=fails.klass, message=fails.message)
    found = check(first, again)
    if found is None or found.culprit is None:
        return with_seen(fails, fact("only_if_differs", differs=differs))
    who = found.culprit
    message = fact("differs_with_another", rank=who.rank, step=who.step, differs=differs)
    return replace(with_seen(found, seen), message=message)


def with_seen(found: Finding, seen: Part) -> Finding:
    """Returns the finding with an observation that explains the difference."""
    return replace(found, details=(*found.details, fact("seen", seen=seen)))


def explained(found: Finding, reads: Sequence[Fact]) -> Finding:
    """Returns the finding with what its program reads besides the contract, in place of likely causes."""
    kept = (part for part in found.details if part not in CAUSES)
    return replace(found, details=(*kept, *(fact("cause_may_be", read=read) for read in reads))) if reads else found


def _difference(
    rank: int, one: Sequence[RawRecord], other: Sequence[RawRecord], stopped: bool
) -> tuple[bool, int, int, int] | None:
    """Returns (whether one journal is only shorter, step, index, rank) for the first record that differs, or None."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs and repr(mine) != repr(theirs):  # nan is not equal to itself
            return False, min(mine[STEP], theirs[STEP]), at, rank
    at = min(len(one), len(other))
    if stopped or len(one) == len(other):
        return None
    return True, max(one, other, key=len)[at][STEP], at, rank


def _did(raw: RawRecord | None) -> Fact:
    if raw is None:
        return fact("did_nothing_more")
    record = as_record(raw)
    if raw[KIND] == "finished":
        return fact("program_ended")
    if raw[KIND] == "raised":
        return fact("program_raised", error=record, message=raw[-1])
    return fact("did", call=record, outcome=repr(raw[LEARNED_OUTCOME]) if raw[KIND] == "learned" else None)
