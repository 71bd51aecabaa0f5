"""Extra calls: finds the rank that made a collective call too many or too few, so that its calls paired up wrongly.

The ledger (the check that compares the calls of all members step by step) needs complete steps. A member that raised or
hangs inside a step has fewer calls for that reason alone. So this pass compares the site and the host thread of each
call. It looks for the first call at which two members differ:

    rank 0   dispatch   combine    dispatch   combine               raised WrongSum
    rank 1   dispatch   dispatch   combine    dispatch   combine    -> rank 1 went astray at its second dispatch

With three members or more, the majority is right. With two members, the pass edits the list of each member in turn. It
removes the call in question, or inserts the call of the other member. A member went astray if its edited list follows
the order that host threads have elsewhere in the run (`habits`). If that is true of neither member or of both, the pass
blames no rank. In a run of one step and one layer, a missing call is as likely as an additional one.

If the ledger has a finding without a culprit in the same step, the new finding replaces it. Otherwise the pass adds the
new finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, TypeAlias

from dpsim.checks import given_up
from dpsim.checks.apart import Members, first_apart
from dpsim.checks.blame.habits import Habits, Question, Stretch
from dpsim.checks.finding import Finding, Part, also, left_out
from dpsim.checks.new_values import new_value
from dpsim.checks.run_index import Entry, RunIndex, call, split
from dpsim.contract.ops import COLLECTIVE_ROOT, SITE, THREAD
from dpsim.contract.words import counted

Place: TypeAlias = tuple[str, str]
"""The host thread and the site of a call."""


class Parting(NamedTuple):
    """The first call at which the members of a communicator differ in a step.

    `at` is the index of this call within the step, and `lists` has the calls of each member in the step.
    """

    communicator: str
    step: int
    at: int
    lists: dict[int, list[Entry]]

    def entry(self, rank: int) -> Entry | None:
        """Returns the member's call at index `at`, or None if the member made fewer calls in this step."""
        own = self.lists[rank]
        return own[self.at] if self.at < len(own) else None

    def place(self, rank: int) -> Place | None:
        entry = self.entry(rank)
        return None if entry is None else place_of(entry)

    def behind(self, rank: int) -> list[Place]:
        """Returns thread and site of the member's call at index `at` and of all later calls in the step."""
        return [place_of(entry) for entry in self.lists[rank][self.at :]]


def place_of(entry: Entry) -> Place:
    return entry.raw[THREAD], entry.raw[SITE]


def extra_calls(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A communicator whose members differ gets a finding with a culprit, if the evidence names
    one.
    """
    habits = Habits(run_index.run)
    for communicator, members in run_index.collectives.items():
        members = given_up.without_broken_off(run_index, communicator, members)
        parting = _first_parting(run_index, communicator, members)
        if parting is None:
            continue
        found = _odd(run_index, parting, habits)
        if found is not None:
            odd, ground = found
            findings = _with(findings, _finding(run_index, parting, odd, ground), len(parting.lists) > 2)
    return findings


def _with(findings: list[Finding], new: Finding, by_majority: bool) -> list[Finding]:
    """Adds the new finding, unless the ledger already blames a rank at an earlier or equal position.

    The new finding replaces findings of the ledger that are in the same step and have no culprit. If the ledger has a
    reason why no majority counts, a new finding by majority is left out.
    """
    of_ledger = [one for one in findings if one.check == "ledger"]
    if any(one.culprit is not None and one.position <= new.position for one in of_ledger):
        return findings
    undecided = [one for one in of_ledger if one.culprit is None and one.position[0] == new.position[0]]
    if by_majority and any(one.why for one in undecided):
        return findings
    # The sort by position is stable, so the new finding stays first at its position.
    return [new, *[one for one in findings if one not in undecided]]


def _first_parting(run_index: RunIndex, communicator: str, members: dict[int, list[Entry]]) -> Parting | None:
    """Returns the difference in the earliest step that has one. A member without any call in that step is ignored."""
    if len({tuple(map(place_of, own)) for own in members.values()}) < 2:
        return None
    everywhere = Members(members)
    steps = everywhere.steps
    kinds = _kinds(everywhere)
    for step in sorted({step for own in steps.values() for step in own}):
        lists = {rank: own[step] for rank, own in steps.items() if step in own}
        places = [
            at
            for one, other in combinations(_unlike(run_index, step, lists, kinds), 2)
            for at in _apart(run_index, everywhere, step, lists[one], lists[other])
        ]
        if places:
            return Parting(communicator, step, min(places), lists)
    return None


def _kinds(members: Members) -> dict[int, int]:
    """Returns a number for each member. Two members get the same number if `_apart` cannot distinguish them outside a
    step.

    That is so if the threads and steps of all their calls are equal, and if they reach the same set of sites.
    """
    numbers: dict[object, int] = {}
    return {
        rank: numbers.setdefault(
            (frozenset(members.sites[rank]), tuple([(entry.raw[THREAD], entry.step) for entry in own])), len(numbers)
        )
        for rank, own in members.calls.items()
    }


def _unlike(run_index: RunIndex, step: int, lists: dict[int, list[Entry]], kinds: dict[int, int]) -> list[int]:
    """Returns one member for each set of members that behave alike in this step.

    Members of one set do not differ, so one of them can represent the set. If all n members are alike, `_first_parting`
    then compares no pair, instead of n * n pairs.
    """
    alike: dict[object, int] = {}
    for rank, own in lists.items():
        calls = tuple([(*place_of(entry), rank == entry.raw[COLLECTIVE_ROOT]) for entry in own])
        alike.setdefault((calls, kinds[rank], run_index.passed(rank, step)), rank)
    return [*alike.values()]


def _apart(run_index: RunIndex, members: Members, step: int, mine: list[Entry], theirs: list[Entry]) -> Iterator[int]:
    """Yields the indexes at which two members differ in a step.

    They differ if their sites differ, or if the host threads differ and both members use both threads. They also differ
    where the shorter list ends, if its member is already past the step.
    """
    by_site = first_apart(members, step, mine, [theirs]).at
    if by_site is not None:
        yield by_site
    own, other = ([entry.raw[THREAD] for entry in entries] for entries in (mine, theirs))
    both = set(own) & set(other)
    for at, pair in enumerate(zip(own, other, strict=False)):
        if pair[0] != pair[1] and both.issuperset(pair):
            yield at
            break
    shorter = min(mine, theirs, key=len)
    if len(mine) != len(theirs) and run_index.passed(shorter[0].rank, step):
        yield len(shorter)


def _odd(run_index: RunIndex, parting: Parting, habits: Habits) -> tuple[int, tuple[str, ...]] | None:
    """Returns the member that went astray and the evidence, or None without evidence.

    A member that has made no further call but is still within the step is not judged, because it may make the call
    later.
    """
    places = {rank: parting.place(rank) for rank in parting.lists}
    there = {rank: place for rank, place in places.items() if place or run_index.passed(rank, parting.step)}
    parted = split(there)
    if parted is not None and len(parted[1]) == 1:
        right = there[parted[0][0]]
        did = f"called {right[1]}" if right else "made no further call"
        return parted[1][0], (f"{counted(len(parted[0]), 'other member')} of {parting.communicator} {did}",)
    threads = {place[0] for place in there.values() if place}
    questions = {}
    for rank, place in there.items():
        others = {other[1] for other in there.values() if other and other != place}
        made = place[1] if place else None
        questions[rank] = Question(_stretches(parting, rank, threads), made, sorted(others))
    found = habits.odd(questions)
    [*odd] = found
    until = {rank: entry.at for rank in parting.lists if (entry := parting.entry(rank)) is not None}
    if len(odd) != 1 or new_value(run_index, parting.step, until):
        return None
    return odd[0], (found[odd[0]],)


def _stretches(parting: Parting, rank: int, threads: set[str]) -> list[Stretch]:
    """Returns, for each thread, the part of the journal that is in question: the next call and the ops that follow it.

    Each part begins at the thread's last call before the difference. It ends at the second call after that.
    """
    own, found = parting.lists[rank], []
    for thread in sorted(threads):
        alike = [entry for entry in own[: parting.at] if entry.raw[THREAD] == thread]
        behind = [entry for entry in own[parting.at :] if entry.raw[THREAD] == thread]
        first, last = alike[-1].at if alike else 0, behind[1].at if len(behind) > 1 else None
        found.append(Stretch(rank, thread, parting.step, first, last))
    return found


def _finding(run_index: RunIndex, parting: Parting, odd: int, ground: tuple[str, ...]) -> Finding:
    other = next(rank for rank in parting.lists if parting.place(rank) != parting.place(odd))
    mine, theirs = parting.entry(odd), parting.entry(other)
    entry = mine or theirs
    assert entry is not None, "two members that made no further calls did not part"
    klass, did = _did(parting, odd, other)
    left_out = theirs if klass == MISSING else None
    met = "nothing more" if theirs is None else f"{call(theirs).site} of rank {other} at {call(theirs).where}"
    meets = "" if mine is None else f"its {call(mine).site} at {call(mine).where} met {met}"
    return Finding(
        check="ledger",
        klass="MISMATCH:COLLECTIVE:STEP" if run_index.run.finished else klass,
        message=also(did, meets),
        culprit=replace(run_index.culprit(left_out or entry, odd), step=parting.step),
        position=run_index.position(entry),
        details=tuple(
            f"rank {rank} in step {parting.step}: {', '.join(one.raw[SITE] for one in calls)}"
            for rank, calls in parting.lists.items()
        ),
        ground=ground,
    )


EXTRA, MISSING = "HANG:COLLECTIVE:EXTRA_CALL", "HANG:COLLECTIVE:MISSING_RANK"


def _did(parting: Parting, odd: int, other: int) -> tuple[str, Part]:
    """Returns the class of the finding and what member `odd` did.

    It made one call too many if removing the call aligns more of the later calls. It left one out if inserting it does.
    """
    mine, theirs = parting.behind(odd), parting.behind(other)
    extra, missing = _alike(mine[1:], theirs), _alike(mine, theirs[1:])
    own, missed = (_with_op(parting, rank) for rank in (odd, other))
    if mine and (extra > missing or not theirs):
        before = [entry.raw[SITE] for entry in parting.lists[odd][: parting.at]]
        return EXTRA, f"rank {odd} made {own} {'once more' if mine[0][1] in before else 'too'} in step {parting.step}"
    if theirs and (missing > extra or not mine):
        return MISSING, left_out((odd,), missed, parting.step)
    return "MISMATCH:COLLECTIVE:SITES", f"rank {odd} made {own} instead of {theirs[0][1]} in step {parting.step}"


def _with_op(parting: Parting, rank: int) -> str:
    entry = parting.entry(rank)
    return "" if entry is None else f"{entry.raw[SITE]} ({call(entry).op} on {parting.communicator})"


def _alike(one: list[Place], other: list[Place]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
