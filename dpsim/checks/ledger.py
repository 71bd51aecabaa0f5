"""Ledger: the members of a group make the same collectives, in the same steps (I-ES-1, I-DP-2).

A rank that leaves out one collective pairs up silently with its peers' next one, and may go on so for an hour. So
calls are not compared by where they were paired up but by their **step tag**: within a step, every member's list of
(op, count, dtype, root) must be the same. A member that is still within the step may have a shorter list; one that
has gone on has left something out.

    step         4           5           6
    rank 0   agree(16)   agree(16)   agree(16)
    rank 1   agree(16)       -       agree(16)

Rank 1 left out agree in step 5, although the hang shows at the end of the run.

A rank may also be stuck *within* the step in which it left something out, because its next collective is on another
communicator. Then the order in which a step usually uses its communicators tells that it has gone beyond the call.

A rank that did nothing at all in a step left it out, however many did the same; so did one that made no call where
every step before has one. Otherwise the majority is right, and where there is none, habit decides. Where that cannot
either, no rank is blamed, and whether a call is missing or one too many is a guess.
"""

from __future__ import annotations

from dpsim.checks.evidence import Entry, Evidence, by_step, call, first_difference, ranks_text, split, times
from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.habit import Habit

Call = tuple[str, int, str, int | None]

FIELDS = ("op", "count", "dtype", "root")


def check(evidence: Evidence) -> list[Finding]:
    """At most one finding for each communicator: later differences follow from the first."""
    findings = []
    habit: Habit | None = None
    for communicator, members in evidence.collectives.items():
        rows = [[(entry.raw[1], *entry.raw[8:12]) for entry in entries] for entries in members.values()]
        if first_difference(rows) is not None:
            habit = habit or Habit(evidence)
            finding = _first(evidence, communicator, members, habit)
            if finding is not None:
                findings.append(finding)
    return findings


def _first(evidence: Evidence, communicator: str, members: dict[int, list[Entry]], habit: Habit) -> Finding | None:
    steps = {rank: by_step(entries) for rank, entries in members.items()}
    for step in sorted({step for own in steps.values() for step in own}):
        here = {rank: own.get(step, []) for rank, own in steps.items()}
        calls = {rank: _calls(entries) for rank, entries in here.items()}
        longest = max(calls.values(), key=len)
        waiting = {
            rank
            for rank in calls
            if calls[rank] == longest[: len(calls[rank])] and not habit.done(rank, step, communicator)
        }
        judged = {rank: own for rank, own in calls.items() if rank not in waiting or own == longest}
        if len(set(judged.values())) > 1:
            return _blame(evidence, communicator, here, judged, habit, step)
    return None


def _calls(entries: list[Entry]) -> tuple[Call, ...]:
    return tuple(entry.raw[8:12] for entry in entries)


def _blame(
    evidence: Evidence,
    communicator: str,
    here: dict[int, list[Entry]],
    calls: dict[int, tuple[Call, ...]],
    habit: Habit,
    step: int,
) -> Finding:
    idle = [rank for rank in calls if not habit.took_part(rank, step)]
    busy = [rank for rank in calls if rank not in idle]
    if not idle:  # those that made no call where every step before has one, though the majority
        idle = habit.without_usual_calls(communicator, step, {rank: len(own) for rank, own in calls.items()})
        busy = [rank for rank in calls if rank not in idle]
    parted = (busy, idle) if idle and len({calls[rank] for rank in busy}) == 1 else split(calls)
    if parted is None:
        odd = habit.odd_one(communicator, step, {rank: here[rank] for rank in calls})
        others = [rank for rank in calls if rank != odd]
        parted = (others, [odd]) if odd is not None and len({calls[rank] for rank in others}) == 1 else None
    good, bad = parted or ([max(calls, key=lambda rank: len(calls[rank]))], [])
    reference = here[good[0]]
    culprit = bad[0] if bad else next(rank for rank in calls if calls[rank] != calls[good[0]])
    mine, theirs = calls[culprit], calls[good[0]]
    index = first_difference([mine, theirs])
    assert index is not None
    groups: dict[str, list[int]] = {}
    for rank in sorted(calls):
        groups.setdefault(_list(here[rank]) or f"nothing on {communicator}", []).append(rank)
    if len(mine) == len(theirs):
        field = next(name for name, a, b in zip(FIELDS, mine[index], theirs[index], strict=True) if a != b)
        klass, entry = f"MISMATCH:COLLECTIVE:{field.upper()}", here[culprit][index]
        right = call(reference[index]).describe()
        message = f"called {call(entry).describe()} in step {step} where {ranks_text(good)} called {right}"
    elif len(mine) < len(theirs):
        klass, entry = "HANG:COLLECTIVE:MISSING_RANK", reference[index]
        what = f"{call(entry).site} ({call(entry).op} on {communicator})"
        message = f"left out {what} in step {step}; {ranks_text(good)} made it"
    else:
        klass, entry = "HANG:COLLECTIVE:EXTRA_CALL", here[culprit][index]
        what = f"{call(entry).site} ({call(entry).op} on {communicator})"
        message = f"made {what} {times(len(mine))} in step {step}, {ranks_text(good)} {times(len(theirs))}"
    if evidence.run.finished and klass.startswith("HANG"):
        klass = "MISMATCH:COLLECTIVE:STEP"
    if not bad:
        ways = "; ".join(f"{ranks_text(ranks)}: {calls}" for calls, ranks in groups.items())
        message = f"ranks differ in step {step}, and nothing says who is right: {ways}"
    return Finding(
        check="ledger",
        klass=klass,
        message=f"{ranks_text(bad)} {message}" if bad else message,
        culprit=Culprit(culprit, step, call(entry).site, call(entry).where) if bad else None,
        position=evidence.position(reference[index] if index < len(reference) else here[culprit][index]),
        details=tuple(f"{ranks_text(ranks)} in step {step}: {calls}" for calls, ranks in groups.items()),
    )


def _list(entries: list[Entry]) -> str:
    return ", ".join(f"{call(entry).describe()} at {call(entry).where}" for entry in entries)
