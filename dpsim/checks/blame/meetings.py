"""Meetings: the calls that meet in a step, and their sites. They are the sides of a transfer or the members of a group.

    step 1, 2   size.send meets size.receive, text.send meets text.receive
    step 3      text.send meets size.receive      strange: each of the two meets a different one elsewhere

If a strange pair meets, a call is missing before it, although both sides made equally many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations, product

from dpsim.checks.blame.steps import Name, name_of
from dpsim.checks.run_index import Entry, RunIndex, by_step


def meetings(run_index: RunIndex) -> Iterator[tuple[Entry, ...]]:
    """Calls at the same place of a step, on all sides, for steps in which all sides made equally many."""
    sides = [[line.sends, line.receives] for line in run_index.transfers.values()]
    sides += [list(members.values()) for members in run_index.collectives.values() if len(members) > 1]
    for calls in sides:
        steps = [by_step(own) for own in calls]
        for step, first in steps[0].items():
            here = [own.get(step, []) for own in steps]
            if all(len(own) == len(first) for own in here):
                yield from zip(*here, strict=True)


class Partners:
    """The names that meet in a run, with their counts."""

    def __init__(self, run_index: RunIndex) -> None:
        self._met: dict[Name, dict[Name, int]] = {}
        for calls in meetings(run_index):
            counts = Counter(name_of(entry.raw) for entry in calls)
            for one, other in product(counts, repeat=2):
                met = counts[one] * (counts[other] - (one == other))
                if met:
                    own = self._met.setdefault(one, {})
                    own[other] = own.get(other, 0) + met

    def strange(self, calls: Sequence[Entry]) -> bool:
        """Whether two of these calls, at different sites, both meet calls at another site at least as often."""
        return any(self._prefers(one, other) and self._prefers(other, one) for one, other in _pairs(calls))

    def known(self, calls: Sequence[Entry]) -> bool:
        """Whether these calls, which meet here, are at one site, or also meet elsewhere by their names."""
        return all(one[1] == other[1] or self._met.get(one, {}).get(other, 0) > 1 for one, other in _pairs(calls))

    def _prefers(self, one: Name, other: Name) -> bool:
        met = self._met.get(one, {})
        return one[1] != other[1] and any(number >= met.get(other, 0) for name, number in met.items() if name != other)


def _pairs(calls: Sequence[Entry]) -> Iterator[tuple[Name, Name]]:
    """Each two different names of these calls. Calls of one name meet as they should."""
    return permutations(dict.fromkeys(name_of(entry.raw) for entry in calls), 2)
