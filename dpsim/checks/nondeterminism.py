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

from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, STEP, RawRecord, as_record

Journals = Sequence[Sequence[RawRecord]]

CAUSES = (
    "likely causes: random numbers without a seed, a clock, the order of a set, id() or hash() of an object;",
    "  state that outlives a run: on a class, in a module, in a default argument",
    "  state that ranks share, in self or in what prepare made: made again, each rank has its own, as in a process",
)

SHARED = (
    "the simulation runs all ranks in one Python process, and hardware runs each in its own. Likely causes:",
    "  a rank leaves something in a module, a class, a default argument or os.environ, and another one reads it;",
    "  a rank decides by os.getpid(), by hash() of text, by id(), or by the order of a set",
    "send what ranks have to agree on through a communicator, a mailbox or a store",
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
        return of("the schedule of a run does not fit the run made again: " + stopped) if stopped else None
    _, _, at, rank = min(places)
    one, other = (journal[rank][at] if at < len(journal[rank]) else None for journal in (first, second))
    found = one or other
    assert found is not None
    record = as_record(found)
    return Finding(
        check="nondeterminism",
        klass="NONDETERMINISM:REPEAT",
        message=f"rank {rank} acts differently in step {record.step} when dpsim repeats the run with the same schedule",
        culprit=Culprit.of(rank, record),
        position=(record.step, at),
        details=(f"first:   {_text(one)}", f"again:   {_text(other)}", *CAUSES),
    )


def of(message: str) -> Finding:
    """Returns a finding for a difference that no record shows."""
    return Finding("nondeterminism", "NONDETERMINISM:REPEAT", message, None, (0, 0), CAUSES)


def unseeded(generator: str, culprit: Culprit | None) -> Finding:
    """Returns a finding for a run that used a random generator without a seed, although its repetition was equal.

    `culprit` is the rank, if it is known.
    """
    who = "a rank" if culprit is None else f"rank {culprit.rank} in step {culprit.step}"
    message = (
        f"{who} uses {generator}, which has no seed; a repeated run had the same records, but another one may differ"
    )
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
        message=f"rank {rank} in step {record.step} acts differently when no other rank runs in its process",
        culprit=Culprit.of(rank, record),
        position=(record.step, at),
        details=(
            f"with the others: {_text(among)}",
            f"alone:           {_text(alone)}",
            *[f"shared: {', '.join(shared[:NAMED])}"] * bool(shared),
            *SHARED,
        ),
    )


def elsewhere(first: Journals, again: Journals, differs: str, fails: Finding) -> Finding:
    """Returns a finding for a run that fails, `fails`, where `differs` between its ranks, and held where it did not."""
    seen = f"with it, {fails.klass}: {fails.message}"
    found = check(first, again)
    if found is None or found.culprit is None:
        return with_seen(fails, f"only if {differs} differs between ranks")
    who = found.culprit
    return replace(
        with_seen(found, seen), message=f"rank {who.rank} acts differently in step {who.step} with another {differs}"
    )


def with_seen(found: Finding, seen: str) -> Finding:
    """Returns the finding with an observation that explains the difference."""
    return replace(found, details=(*found.details, f"seen: {seen}"))


def explained(found: Finding, reads: Sequence[str]) -> Finding:
    """Returns the finding with what its program reads besides the contract, in place of likely causes."""
    kept = tuple(line for line in found.details if line not in CAUSES)
    return replace(found, details=(*kept, *[f"the cause may be: {read}" for read in reads])) if reads else found


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


def _text(raw: RawRecord | None) -> str:
    if raw is None:
        return "nothing more"
    record = as_record(raw)
    if raw[KIND] == "finished":
        return "the program ends"
    if raw[KIND] == "raised":
        return f"the program raises {record.site}: {raw[-1]}, {record.where}"
    outcome = f" {raw[LEARNED_OUTCOME]!r}" if raw[KIND] == "learned" else ""
    where = f", {record.where}" if record.where else ""
    return f"{record.describe()}{outcome} at {record.site}[{record.ordinal}]{where}"
