"""Unseen: what a run on another backend shows that the search of its world did not see, and where.

    compared(run, exploration.outcomes)     # None, or
    # Unseen(1, "rank 0", "within[0] True", "prog.py:22", ("within[0] False",))

The place is the first thread, by the clock of the run, that left the seen outcomes. Threads that wait without end come
last, because they mostly wait for another one that left. A search assumes that no time-out passes early, and a busy
machine may break this. So an outcome is *early*, and refutes nothing, if such a time-out passed before it where the
search also saw another answer. A time-out passed early if all sleeps of the other actors together are shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from dpsim.campaign.learned import Lists, Places, actor_name, learned
from dpsim.contract.kinds import timeout_ns
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    RAISED_MESSAGE,
    SLEEP_NS,
    THREAD,
    WHERE,
    RawRecord,
    as_record,
)
from dpsim.contract.times import fits
from dpsim.contract.words import counted, short
from dpsim.contract.world import Delay, Run
from dpsim.explore import Outcomes
from dpsim.explore.outcomes import LeavesSet

SHOWN = 4
"""The outcomes of schedules that a description names."""


class Unseen(NamedTuple):
    """An outcome that the search did not see. `run`: from 1. `actor`: the thread that left the seen outcomes first, and
    what it learned `where`. `seen`: what it learned there in the schedules; empty if no schedule had all actors like
    this `together`. `early`: a time-out that passed early explains it.
    """

    run: int
    actor: str
    learned: str
    where: str
    seen: tuple[str, ...]
    together: tuple[str, ...] = ()
    early: bool = False

    def rows(self, backend: str) -> list[str]:
        """Returns the outcome on the backend, and below it what the schedules show there."""
        where = f", {self.where}" if self.where else ""
        more = len(self.seen) - SHOWN
        seen = " or ".join([*self.seen[:SHOWN], *[counted(more, "other answer")] * (more > 0)]) or "none comes here"
        if self.together:
            seen = f"{' and '.join(self.together)}: in some schedule, but never together with the rest"
        width = max(len(backend) + 3, len("schedules"))
        return [f"{f'on {backend}':{width}} {self.actor}: {self.learned}{where}", f"{'schedules':{width}} {seen}"]


@dataclass
class Against:
    """What runs on a backend showed: how many `runs` made how many different `outcomes`, or `why` none was made."""

    backend: str
    wanted: int
    proven: bool = False
    runs: int = 0
    outcomes: int = 0
    all_unseen: list[Unseen] = field(default_factory=list)
    why: str = ""

    @property
    def unseen(self) -> list[Unseen]:
        """The outcomes that no early time-out explains."""
        return [one for one in self.all_unseen if not one.early]

    @property
    def early(self) -> int:
        """The number of runs in which a time-out passed early."""
        return len(self.all_unseen) - len(self.unseen)

    @property
    def refutes(self) -> Unseen | None:
        """The first outcome that refutes the proof, or None."""
        return self.unseen[0] if self.proven and self.unseen else None

    def unmet(self) -> str | None:
        """Returns why the outcome is not as expected, or None."""
        one = self.refutes
        return None if one is None else f"run {one.run} on {self.backend} shows what no schedule shows"

    @property
    def _as_seen(self) -> str:
        return "all" if not self.early else "the others" if self.early < self.runs else "none"

    def described(self) -> list[str]:
        """Returns lines about the runs; with an unseen outcome, what it is and what the schedules show there."""
        if self.why:
            return [f"against {self.backend}: no run, because {self.why}"]
        runs = f"{counted(self.runs, 'run')}, {counted(self.outcomes, 'outcome')}"
        early = f"; in {self.early} a time-out passed early, which the search excludes" if self.early else ""
        if not self.unseen:
            return [f"against {self.backend}: {runs}, {self._as_seen} seen by the search{early}"]
        word, who = ("REFUTED", "no schedule shows") if self.proven else ("UNSEEN", "the search did not see")
        number = len(self.unseen)
        show = f"run {self.unseen[0].run} shows" if number == 1 else f"{number} of {self.runs} runs show"
        return [f"{word}  {self.backend}: {show} what {who}{early}", *self.unseen[0].rows(self.backend)]


def compared(
    run: Run, seen: Outcomes, number: int = 1, calls: bool = True, delays: Sequence[Delay] = ()
) -> Unseen | None:
    """Returns what a run shows that the search did not see, or None. `calls`: as of `learned`."""
    lists, places = learned(run, calls=calls)
    left = seen.unlike(lists)
    if left and seen.rounded:
        lists, places = learned(run, True, calls)
        left = seen.unlike(lists)
    if not left:
        return None
    look = _Look(run, lists, places, delays)
    first = min(left, key=look.order)
    all_stay = all(one.at == len(lists[one.actor]) for one in left)
    text, where = look.described(first.actor, min(first.at, len(lists[first.actor]) - 1))
    together = tuple(sorted(one.actor for one in left)) if all_stay else ()
    return Unseen(number, first.actor, text, where, first.seen, together, look.is_early(seen, first))


class _Look(NamedTuple):
    run: Run
    lists: Lists
    places: Places
    delays: Sequence[Delay]

    def order(self, one: LeavesSet) -> tuple[float, str]:
        return self.ns(one.actor, one.at), one.actor

    def ns(self, actor: str, at: int) -> float:
        """Returns when a thread learned a word. A wait without end comes last."""
        rank, index = self.places[actor][at] if at < len(self.places[actor]) else (0, None)
        if index is None:
            return inf
        return self.run.times[rank].written[index] if fits(self.run.times, self.run.journals) else 0

    def is_early(self, seen: Outcomes, first: LeavesSet) -> bool:
        """Returns whether a time-out passed early before a departure, where the search also saw another answer."""
        until = self.ns(first.actor, first.at)
        return any(
            {*seen.next_words(actor, words[:at])} - {words[at]}
            for actor, words in self.lists.items()
            for at, timeout_ns in self._passed(actor)
            if self.ns(actor, at) <= until and self._slept(actor, self.ns(actor, at)) < timeout_ns
        )

    def _slept(self, actor: str, until: float) -> int:
        """A chain of sleeps that one time-out may overtake is not longer than all sleeps of the other actors."""
        rank, timed = self.places[actor][0][0], fits(self.run.times, self.run.journals)
        slept = sum(one.ns for one in self.delays if one.rank != rank)
        for number, journal in enumerate(self.run.journals):
            main = actor_name(self.run, number)
            for at, raw in enumerate(journal):
                own = actor == (main if raw[THREAD] == MAIN else f"{main} thread {raw[THREAD]}")
                if raw[KIND] == "sleep" and not own and not (timed and self.run.times[number].written[at] > until):
                    slept += raw[SLEEP_NS]
        others = ((other, one) for other in self.lists if other != actor for one in self._passed(other))
        return slept + sum(ns for other, (at, ns) in others if self.ns(other, at) <= until)

    def _passed(self, actor: str) -> Iterator[tuple[int, int]]:
        for at, (rank, index) in enumerate(self.places[actor]):
            journal = self.run.journals[rank]
            raw = journal[index] if index is not None else None
            if raw is not None and raw[KIND] == "learned" and raw[LEARNED_OUTCOME] in (None, False):
                call = self._call(rank, raw)
                if call is not None and (ns := timeout_ns(call)):
                    yield at, ns

    def _call(self, rank: int, raw: RawRecord) -> RawRecord | None:
        journal = self.run.journals[rank]
        return next((one for one in journal if one[ADDRESS] == raw[ADDRESS] and one[KIND] != "learned"), None)

    def described(self, actor: str, at: int) -> tuple[str, str]:
        word, (rank, index) = self.lists[actor][at], self.places[actor][at]
        journal = self.run.journals[rank]
        if index is None:
            last = next((one for one in reversed(journal) if one[WHERE]), None)
            waits = last is not None and word == "blocked"
            if not waits or last is None:
                return word, ""
            return word if last[KIND] == "probe" else f"{word} in {as_record(last).describe()}", last[WHERE]
        raw = journal[index]
        if raw[KIND] == "raised":
            return f"{word}: {short(raw[RAISED_MESSAGE])}", raw[WHERE]
        call = self._call(rank, raw) if raw[KIND] == "learned" else raw
        return word, "" if call is None else call[WHERE]
