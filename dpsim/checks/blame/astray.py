"""Astray: a call of a collective that met a different call, because one member made one too many or left one out.

The ledger compares the calls of a step, and a member that raised or stands within it may have fewer. Sites and host
threads show more: up to some call they are equal, and from there on each call meets a different one.

    rank 0   dispatch   combine    dispatch   combine               raised WrongSum
    rank 1   dispatch   dispatch   combine    dispatch   combine    -> rank 1 went astray at its second dispatch

The majority is right. With two members, this pass takes a member's call out, or puts the call of the other in. A member
went astray if it then does what threads do elsewhere (`habits`). If this holds for neither or both, the pass decides
nothing. Without another layer or step, the two calls are the only evidence, and a missing call is as likely as an
additional one.

A finding of the ledger without a culprit gets this one. Otherwise the pass adds a finding at the place of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, TypeAlias

from dpsim.checks import given_up
from dpsim.checks.apart import Members, first_apart
from dpsim.checks.blame.habits import Habits, Question, Stretch
from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex, call, split
from dpsim.contract.ops import COLLECTIVE_ROOT, SITE, THREAD
from dpsim.contract.words import counted

Place: TypeAlias = tuple[str, str]
"""The host thread and the site of a call."""


class Parting(NamedTuple):
    """The first place at which members of a communicator made different calls: the call `at` of this step. `lists`: the
    calls of each member in the step.
    """

    communicator: str
    step: int
    at: int
    lists: dict[int, list[Entry]]

    def entry(self, rank: int) -> Entry | None:
        """The call of a member there; None if it made no more."""
        own = self.lists[rank]
        return own[self.at] if self.at < len(own) else None

    def place(self, rank: int) -> Place | None:
        entry = self.entry(rank)
        return None if entry is None else place_of(entry)

    def behind(self, rank: int) -> list[Place]:
        """The call there and the later ones."""
        return [place_of(entry) for entry in self.lists[rank][self.at :]]


def place_of(entry: Entry) -> Place:
    return entry.raw[THREAD], entry.raw[SITE]


def astray(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """The findings, with a culprit for each communicator whose members departed from each other, if there is one."""
    habits = Habits(run_index.run)
    for communicator, members in run_index.collectives.items():
        members = given_up.without_broken_off(run_index, communicator, members)
        parting = _first_parting(run_index, communicator, members)
        if parting is None:
            continue
        found = _odd(run_index, parting, habits)
        if found is not None:
            odd, ground = found
            findings = _with(findings, _finding(run_index, parting, odd, ground))
    return findings


def _with(findings: list[Finding], new: Finding) -> list[Finding]:
    """Add the new finding, unless the ledger blames a rank before it. It replaces findings of its step without a
    culprit.
    """
    of_ledger = [one for one in findings if one.check == "ledger"]
    if any(one.culprit is not None and one.position <= new.position for one in of_ledger):
        return findings
    undecided = [one for one in of_ledger if one.culprit is None and one.position[0] == new.position[0]]
    return [new, *[one for one in findings if one not in undecided]]  # findings at one place keep this order


def _first_parting(run_index: RunIndex, communicator: str, members: dict[int, list[Entry]]) -> Parting | None:
    """The parting in the first step with one. Members without a call in that step do not count."""
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
    """A number for each member, equal for members whose calls have equal threads and steps, and that reach equal sites
    in the run. This is what `_apart` reads beside a step.
    """
    numbers: dict[object, int] = {}
    return {
        rank: numbers.setdefault(
            (frozenset(members.sites[rank]), tuple([(entry.raw[THREAD], entry.step) for entry in own])), len(numbers)
        )
        for rank, own in members.calls.items()
    }


def _unlike(run_index: RunIndex, step: int, lists: dict[int, list[Entry]], kinds: dict[int, int]) -> list[int]:
    """One member of each group that is alike in this step. Two of one group do not part, and all of a group part alike
    from others. So a step of n equal members is one look, not n * n of them.
    """
    alike: dict[object, int] = {}
    for rank, own in lists.items():
        calls = tuple([(*place_of(entry), rank == entry.raw[COLLECTIVE_ROOT]) for entry in own])
        alike.setdefault((calls, kinds[rank], run_index.passed(rank, step)), rank)
    return [*alike.values()]


def _apart(run_index: RunIndex, members: Members, step: int, mine: list[Entry], theirs: list[Entry]) -> Iterator[int]:
    """The places where two members of a step departed: by sites, by host threads that both have, or where one is past
    the step.
    """
    by_site = first_apart(members, step, mine, [theirs]).at
    if by_site is not None:
        yield by_site
    own, other = ([entry.raw[THREAD] for entry in entries] for entries in (mine, theirs))
    both = set(own) & set(other)
    for at, pair in enumerate(zip(own, other, strict=False)):
        if pair[0] != pair[1] and both.issuperset(pair):
            if not _paired_elsewhere(members.calls, step, mine[0].rank, theirs[0].rank, pair):
                yield at
            break
    shorter = min(mine, theirs, key=len)
    if len(mine) != len(theirs) and run_index.passed(shorter[0].rank, step):
        yield len(shorter)


def _paired_elsewhere(members: dict[int, list[Entry]], step: int, rank: int, other: int, pair: tuple[str, str]) -> bool:
    """Whether calls of these two threads meet in other steps, too. Then the names of threads prove nothing."""
    return any(
        (mine.raw[THREAD], theirs.raw[THREAD]) == pair and mine.step != step
        for mine, theirs in zip(members[rank], members[other], strict=False)
    )


def _odd(run_index: RunIndex, parting: Parting, habits: Habits) -> tuple[int, tuple[str, ...]] | None:
    """The member that went astray, with the evidence; None without evidence. A member that is still within the step may
    call later.
    """
    places = {rank: parting.place(rank) for rank in parting.lists}
    there = {rank: place for rank, place in places.items() if place or run_index.passed(rank, parting.step)}
    parted = split(there)
    if parted is not None and len(parted[1]) == 1:
        right = there[parted[0][0]]
        did = f"called {right[1]}" if right else "made no more call"
        return parted[1][0], (f"{counted(len(parted[0]), 'other member')} of {parting.communicator} {did}",)
    threads = {place[0] for place in there.values() if place}
    questions = {}
    for rank, place in there.items():
        others = {other[1] for other in there.values() if other and other != place}
        made = place[1] if place else None
        questions[rank] = Question(_stretches(parting, rank, threads), made, sorted(others))
    found = habits.odd(questions)
    [*odd] = found
    return (odd[0], (found[odd[0]],)) if len(odd) == 1 else None


def _stretches(parting: Parting, rank: int, threads: set[str]) -> list[Stretch]:
    """The ops of each of these threads, from its last equal call to the second call behind it. Both the next call and
    the following ops are in question.
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
    assert entry is not None, "two members that made no more calls did not part"
    klass, did = _did(parting, odd, other)
    left_out = theirs if klass == MISSING else None
    met = "nothing more" if theirs is None else f"{call(theirs).site} of rank {other} at {call(theirs).where}"
    meets = "" if mine is None else f"; its {call(mine).site} at {call(mine).where} met {met}"
    return Finding(
        check="ledger",
        klass="MISMATCH:COLLECTIVE:STEP" if run_index.run.finished else klass,
        message=f"rank {odd} {did} in step {parting.step}{meets}",
        culprit=replace(run_index.culprit(left_out or entry, odd), step=parting.step),
        position=run_index.position(entry),
        details=tuple(
            f"rank {rank} in step {parting.step}: {', '.join(one.raw[SITE] for one in calls)}"
            for rank, calls in parting.lists.items()
        ),
        ground=ground,
    )


EXTRA, MISSING = "HANG:COLLECTIVE:EXTRA_CALL", "HANG:COLLECTIVE:MISSING_RANK"


def _did(parting: Parting, odd: int, other: int) -> tuple[str, str]:
    """The class, and the act of a member: one call too many, or one too few, if the later calls are equal again."""
    mine, theirs = parting.behind(odd), parting.behind(other)
    extra, missing = _alike(mine[1:], theirs), _alike(mine, theirs[1:])
    entry = parting.entry(odd) or parting.entry(other)
    assert entry is not None
    on = f"({call(entry).op} on {parting.communicator})"
    if mine and (extra > missing or not theirs):
        before = [entry.raw[SITE] for entry in parting.lists[odd][: parting.at]]
        return EXTRA, f"made {mine[0][1]} {on} {'once more' if mine[0][1] in before else 'too'}"
    if theirs and (missing > extra or not mine):
        return MISSING, f"left out {theirs[0][1]} {on}"
    return "MISMATCH:COLLECTIVE:SITES", f"made {mine[0][1]} {on} in the place of {theirs[0][1]}"


def _alike(one: list[Place], other: list[Place]) -> int:
    """The number of equal calls from the first on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
