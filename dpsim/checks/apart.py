"""Apart: the first place in a step at which two members of a communicator made calls at different sites.

If a rank makes one call too many, or leaves one out, its later calls pair up with different calls. If these are equal
in op, size and type, the lists differ only at their ends, and the sites show where it began:

    rank 0   first                second
    rank 1   first    first       second        ->   the second `first` of rank 1 met `second` of rank 0

Two members may call one collective by two names. So two sites are not apart if neither member ever reaches the site of
the other. They are not apart either if one is the site of a root (`crosswise`), or if another step shows that they are
one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from dpsim.checks.crosswise import are_one_call, roles
from dpsim.checks.run_index import Entry, by_step
from dpsim.contract.ops import COLLECTIVE_ROOT, SITE


class Apart(NamedTuple):
    """The first difference between the calls of a member and those of another one, `theirs`: an index, or None."""

    theirs: list[Entry]
    at: int | None
    text: str


class Members:
    """The calls of all members of a communicator, with facts of all steps that are computed once."""

    def __init__(self, calls: dict[int, list[Entry]]) -> None:
        self.calls = calls
        self._one_call: dict[tuple[int, str, str], bool] = {}

    @cached_property
    def roles(self) -> tuple[set[str], set[str]]:
        """The sites of roots, and those of others."""
        return roles(self.calls)

    @cached_property
    def sites(self) -> dict[int, set[str]]:
        """The sites that each member ever reaches."""
        return {rank: {raw[SITE] for _, _, raw in entries} for rank, entries in self.calls.items()}

    @cached_property
    def steps(self) -> dict[int, dict[int, list[Entry]]]:
        """The calls of each member by step."""
        return {rank: by_step(entries) for rank, entries in self.calls.items()}

    def elsewhere(self, step: int) -> dict[int, dict[int, list[Entry]]]:
        """The same without one step."""
        return {rank: {when: own for when, own in steps.items() if when != step} for rank, steps in self.steps.items()}

    def are_one_call(self, step: int, one: str, other: str) -> bool:
        """Whether another step shows that two sites are one call. Each member that departs in a step asks the same."""
        key = step, one, other
        if key not in self._one_call:
            self._one_call[key] = are_one_call(self.elsewhere(step), one, other)
        return self._one_call[key]


def first_apart(members: Members, step: int, mine: list[Entry], others: Sequence[list[Entry]]) -> Apart:
    """The difference between `mine` and the one of several right members with which it has the most in common."""
    found = [(own, _index(members, step, mine, own)) for own in others]
    theirs, index = max(found, key=lambda one: len(one[0]) if one[1] is None else one[1])
    if index is None:
        return Apart(theirs, None, "")
    own, other = mine[index].record, theirs[index].record
    text = f"; its {own.site} at {own.where} met {other.site} of rank {theirs[index].rank} at {other.where}"
    return Apart(theirs, index, text)


def _index(members: Members, step: int, mine: list[Entry], theirs: list[Entry]) -> int | None:
    """The index of the first calls of a step at different sites; None if there are none."""
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
