"""Apart: finds the first call of a step at which two members of a communicator called from different sites.

A site is the name of a call in the source. If a rank makes one call too many, or leaves one out, its later calls pair
up with different calls of its peers. These calls may agree in op, size and type. Then the lists of calls differ only in
length, and only the sites show where the mistake is:

    rank 0   first                second
    rank 1   first    first       second        ->   the second `first` of rank 1 met `second` of rank 0

Two members may also call one collective at two sites on purpose. So the module ignores a pair of different sites in
three cases:

* Neither member ever calls at the site of the other.
* One of the sites is that of a root, and only roots call there (`crosswise`).
* Another step shows that the two sites belong to one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from dpsim.checks.crosswise import are_one_call, roles
from dpsim.checks.finding import Part, fact
from dpsim.checks.run_index import Entry, by_step
from dpsim.contract.ops import COLLECTIVE_ROOT, SITE


class Apart(NamedTuple):
    """The first difference between a member's calls and the calls `theirs` of another member.

    `at` is the index of the call in the step, or None. `text` describes the pair for a message.
    """

    theirs: list[Entry]
    at: int | None
    text: Part


class Members:
    """The calls of all members of a communicator by rank, and facts that are derived from them once."""

    def __init__(self, calls: dict[int, list[Entry]]) -> None:
        self.calls = calls
        self._one_call: dict[tuple[int, str, str], bool] = {}

    @cached_property
    def roles(self) -> tuple[set[str], set[str]]:
        """Returns the sites at which roots call, and those at which other members call."""
        return roles(self.calls)

    @cached_property
    def sites(self) -> dict[int, set[str]]:
        """Returns the sites at which each member calls in the whole run."""
        return {rank: {raw[SITE] for _, _, raw in entries} for rank, entries in self.calls.items()}

    @cached_property
    def steps(self) -> dict[int, dict[int, list[Entry]]]:
        """Returns the calls of each member by step."""
        return {rank: by_step(entries) for rank, entries in self.calls.items()}

    def elsewhere(self, step: int) -> dict[int, dict[int, list[Entry]]]:
        """Returns the calls of each member by step, without one step."""
        return {rank: {when: own for when, own in steps.items() if when != step} for rank, steps in self.steps.items()}

    def are_one_call(self, step: int, one: str, other: str) -> bool:
        """Returns whether a step other than `step` shows that two sites are one call. The answer is cached."""
        key = step, one, other
        if key not in self._one_call:
            self._one_call[key] = are_one_call(self.elsewhere(step), one, other)
        return self._one_call[key]


def first_apart(members: Members, step: int, mine: list[Entry], others: Sequence[list[Entry]]) -> Apart:
    """Returns the difference between `mine` and one of the lists `others`: the one with the longest equal beginning."""
    found = [(own, _index(members, step, mine, own)) for own in others]
    theirs, index = max(found, key=lambda one: len(one[0]) if one[1] is None else one[1])
    if index is None:
        return Apart(theirs, None, "")
    own, other = mine[index].record, theirs[index].record
    return Apart(theirs, index, fact("met", own=own, rank=theirs[index].rank, other=other))


def _index(members: Members, step: int, mine: list[Entry], theirs: list[Entry]) -> int | None:
    if not mine or not theirs:
        return None
    reached = [members.sites[own[0].rank] for own in (mine, theirs)]
    for index, pair in enumerate(zip(mine, theirs, strict=False)):
        one, other = (entry.raw[SITE] for entry in pair)
        if one == other or (one not in reached[1] and other not in reached[0]):
            continue
        of_roots, of_others = members.roles
        is_root = [entry.rank == entry.raw[COLLECTIVE_ROOT] for entry in pair]
        apart = all(
            site not in (of_others if root else of_roots) for site, root in zip((one, other), is_root, strict=True)
        )
        if not (any(is_root) and apart) and not members.are_one_call(step, one, other):
            return index
    return None
