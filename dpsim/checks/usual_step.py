"""Usual step: learns from all steps of a run what a step usually contains, as evidence where there is no majority.

Two ranks that differ have no majority. A rank that hangs within a step may not have shown yet that it left a call out.
But a rank does nearly the same in every step. So the other steps show:

* in which order a step uses its communicators, and so whether a rank is past one of them;
* how many calls a step makes on a communicator, and with which arguments, if these never change;
* which sites are visited equally often. For example, every other step has as many kernels as collectives. Then a rank
  with two kernels and one collective is the odd one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from dpsim.checks.run_index import SIGNATURE, Entry, RunIndex, by_step, signatures
from dpsim.contract.ops import KIND, SITE, STEP

FEW = 2
"""The number of earlier steps that are needed to establish a usual number of calls."""

RankStep: TypeAlias = tuple[int, int]
"""A step of a rank: (rank, step)."""


class UsualStep:
    """The common pattern of the steps of all ranks of a run."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self._first: dict[RankStep, dict[str, int]] = {}  # communicator -> index of its first call
        for communicator, members in run_index.collectives.items():
            for rank, entries in members.items():
                for entry in entries:
                    self._first.setdefault((rank, entry.step), {}).setdefault(communicator, entry.at)
        self._before: Counter[tuple[str, str]] = Counter()
        for used in self._first.values():
            self._before.update((a, b) for a in used for b in used if used[a] < used[b])
        self._sites: defaultdict[RankStep, Counter[str]] | None = None

    def done(self, rank: int, step: int, communicator: str) -> bool:
        """Returns whether a rank makes no more calls on `communicator` in a step, because it is past the step or
        communicator.

        A rank that aborted the communicator may leave out its calls, so the result is False.
        """
        if self.run_index.gave_up(rank, communicator):
            return False
        used = self._first.get((rank, step), {})
        beyond = any(self._precedes(communicator, other, step) for other in used if other != communicator)
        return self.run_index.passed(rank, step) or beyond

    def _precedes(self, one: str, other: str, step: int) -> bool:
        votes = self._before[one, other] - self._before[other, one]
        if not votes:  # no earlier step has both: compare how many ranks used each in this step
            here = [used for (_, when), used in self._first.items() if when == step]
            votes = sum((one in used) - (other in used) for used in here)
        return votes > 0

    def took_part(self, rank: int, step: int) -> bool:
        """Returns whether a rank issued a collective or a kernel in a step."""
        return bool(self._site_counts()[rank, step])

    def number_of_calls(self, communicator: str, step: int, least: int = FEW) -> int | None:
        """Returns the number of calls that each rank made in every earlier step; None if the numbers differ.

        None also if fewer than `least` earlier steps have calls. A program may make some calls only every few steps, so
        a single step does not show which rank is wrong. Against a majority, a single step is a reason for doubt.
        """
        before = [
            (when, len(entries))
            for rank, own in self.run_index.collectives[communicator].items()
            for when, entries in by_step(own).items()
            if when < step and self.run_index.passed(rank, when)
        ]
        steps, numbers = {when for when, _ in before}, [number for _, number in before]
        return numbers[0] if len({*numbers}) == 1 and len(steps) >= least else None

    def odd_one(self, communicator: str, step: int, here: dict[int, list[Entry]]) -> int | None:
        """Returns the one rank that departs from the usual step, or None.

        `here` contains the different calls of the ranks on a communicator in the step.
        """
        if len({len(entries) for entries in here.values()}) > 1:
            broken = self._broken(step, here)
            if broken:
                return _only(broken)
        return self._odd_calls(communicator, step, here)

    def _odd_calls(self, communicator: str, step: int, here: dict[int, list[Entry]]) -> int | None:
        """Returns the one rank whose number of calls, or one argument, differs from all earlier steps; or None.

        The number counts only earlier steps that have one of these sites.
        """
        place = {rank: index for index, rank in enumerate(self.run_index.collectives[communicator])}
        steps = [
            (rank, entries)
            for rank, own in self.run_index.collectives[communicator].items()
            for when, entries in by_step(own).items()
            if when < step and self.run_index.passed(rank, when)
        ]
        before = [signatures(entries, place[rank]) for rank, entries in steps]
        now = {rank: signatures(entries, place[rank]) for rank, entries in here.items()}
        sites = {entry.raw[SITE] for entries in here.values() for entry in entries}
        lengths = {len(entries) for _, entries in steps if not sites.isdisjoint(entry.raw[SITE] for entry in entries)}
        if len(lengths) == 1 and len({len(calls) for calls in now.values()}) > 1:
            return _only(rank for rank, calls in now.items() if len(calls) not in lengths)
        for field in range(len(SIGNATURE)):
            usual = {call[field] for calls in before for call in calls}
            if len(usual) == 1 and any(call[field] not in usual for calls in now.values() for call in calls):
                return _only(rank for rank, calls in now.items() if any(call[field] not in usual for call in calls))
        return None

    def _broken(self, step: int, here: dict[int, list[Entry]]) -> list[int]:
        """Returns the ranks for which two sites have different numbers of visits, although all other steps have equal
        numbers.

        For a rank that is still within the step, only the sites that it has reached count.
        """
        sites = self._site_counts()
        others = [
            counts for (rank, when), counts in sites.items() if when != step and self.run_index.passed(rank, when)
        ]
        place = {name: index for counts in others for index, name in enumerate(counts)}
        called = {entry.raw[SITE] for entries in here.values() for entry in entries}
        broken = []
        for rank in here:
            own = sites[rank, step]
            names = set(place)
            if not self.run_index.passed(rank, step):
                reached = max((place.get(name, 0) for name in own), default=-1)
                names = {name for name in place if place[name] <= reached}
            if any(own[a] != own[b] for a in called & names for b in names if all(c[a] == c[b] for c in others)):
                broken.append(rank)
        return broken

    def _site_counts(self) -> defaultdict[RankStep, Counter[str]]:
        if self._sites is None:
            self._sites = defaultdict(Counter)
            for rank, journal in enumerate(self.run_index.run.journals):
                for raw in journal:
                    if raw[KIND] in ("collective", "launch"):
                        self._sites[rank, raw[STEP]][raw[SITE]] += 1
        return self._sites


def _only(ranks: Iterable[int]) -> int | None:
    """Returns the rank if there is exactly one, or else None."""
    found = list(ranks)
    return found[0] if len(found) == 1 else None
