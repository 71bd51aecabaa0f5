"""Meetings: which calls of different ranks pair up within a step, and whether this pairing is usual.

Both sides of a transfer pair up, and so do all members of a collective. Each call has a site, its name in the source:

    step 1, 2   size.send meets size.receive, text.send meets text.receive
    step 3      text.send meets size.receive      strange: each of the two meets a different one elsewhere

A strange pair shows that each side left out a call before it, even if both sides made equally many calls in the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations, product

from dpsim.checks.blame.steps import Name, name_of
from dpsim.checks.run_index import Entry, RunIndex, by_step


def meetings(run_index: RunIndex) -> Iterator[tuple[Entry, ...]]:
    """Yields the calls that pair up, one tuple for each index of a step. All sides must have equally many calls in the
    step.
    """
    sides = [[line.sends, line.receives] for line in run_index.transfers.values()]
    sides += [list(members.values()) for members in run_index.collectives.values() if len(members) > 1]
    for calls in sides:
        steps = [by_step(own) for own in calls]
        for step, first in steps[0].items():
            here = [own.get(step, []) for own in steps]
            if all(len(own) == len(first) for own in here):
                yield from zip(*here, strict=True)


class Partners:
    """Counts which names of calls pair up in a run. A name is thread, site and kind, as in `steps.name_of`."""

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
        """Returns whether two of these paired calls have different sites, and each pairs up with another site as often
        or more.
        """
        return any(self._prefers(one, other) and self._prefers(other, one) for one, other in _pairs(calls))

    def known(self, calls: Sequence[Entry]) -> bool:
        """Returns whether each two of these paired calls have one site, or also pair up in another place."""
        return all(one[1] == other[1] or self._met.get(one, {}).get(other, 0) > 1 for one, other in _pairs(calls))

    def meet(self, one: Name, other: Name) -> bool:
        """Returns whether two calls have one name, or their names pair up somewhere in the run."""
        return one == other or other in self._met.get(one, {})

    def _prefers(self, one: Name, other: Name) -> bool:
        met = self._met.get(one, {})
        return one[1] != other[1] and any(number >= met.get(other, 0) for name, number in met.items() if name != other)


def _pairs(calls: Sequence[Entry]) -> Iterator[tuple[Name, Name]]:
    """Yields each two different names of these calls, in both orders. Calls of one name belong together."""
    return permutations(dict.fromkeys(name_of(entry.raw) for entry in calls), 2)
