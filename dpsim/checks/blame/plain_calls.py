"""Plain calls: compares lists of calls that have neither steps nor sites, and finds the ranks that differ.

A history is the plain list of a rank's calls, as in a dump of torch's flight recorder. A call is any hashable value.
The caller of this module builds it from the op, count, type and kind of group, and from the distance of a peer.

All members of a group make the same collective calls. So the first call at which the histories differ separates them,
and the majority is right:

    ranks 0, 1, 3   all_reduce 8   all_gather 4   all_reduce 8
    rank 2          all_reduce 8   all_reduce 8                    ->   rank 2 departs from three others

Without a majority, the result names no rank. It still lists the evidence for each rank.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.checks.run_index import split
from dpsim.contract.words import ranks_text

Call: TypeAlias = Hashable
"""A call of a rank. Equal values are equal calls, and the evidence prints the value."""

COHORT = 2
"""The smallest size of a cohort, without the rank that is compared with it."""


class Parted(NamedTuple):
    """The ranks that differ from the others; empty if the evidence names none.

    `at` is the index of the differing call in the histories. `ground` is the evidence, one line each.
    """

    ranks: tuple[int, ...]
    at: int
    ground: tuple[str, ...]


def in_one_group(histories: Mapping[int, Sequence[Call]]) -> Parted | None:
    """Returns the first call at which members of a group differ. None if one history only is shorter than another."""
    for at in range(max(map(len, histories.values()), default=0)):
        here = {rank: own[at] for rank, own in histories.items() if at < len(own)}
        if len(set(here.values())) > 1:
            parted = split(here)
            sides: dict[Call, list[int]] = {}
            for rank, call in here.items():
                sides.setdefault(call, []).append(rank)
            ground = tuple(f"{ranks_text(ranks)} called {call}" for call, ranks in sides.items())
            return Parted(tuple(parted[1]) if parted else (), at, ground)
    return None
