"""Plain calls: compares lists of calls that have neither steps nor sites, and finds the ranks that differ.

A history is the plain list of a rank's calls, as in a dump of torch's flight recorder. A call is any hashable value.
The caller of this module builds it from the op, count, type and kind of group, and from the distance of a peer.

All members of a group make the same collective calls. So the first call at which the histories differ separates them,
and the majority is right:

    ranks 0, 1, 3   all_reduce 8   all_gather 4   all_reduce 8
    rank 2          all_reduce 8   all_reduce 8                    ->   rank 2 departs from three others

A group of two has no majority. But members of other groups of the same kind may have the same history so far: they are
the rank's *cohort*. A rank is the culprit if most of its cohort made another call, and innocent if most made the same:

    group 0   rank 0  broadcast 4  send 8        rank 1  barrier  receive 8
    group 1   rank 2  broadcast 4  send 8        rank 3  barrier  receive 8
    group 2   rank 4  broadcast 4  send 9        rank 5  barrier  receive 8      ->   rank 4 differs from ranks 0, 2

If neither rule names a rank, the result names none. It still lists the evidence for each rank.
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


def of_two(histories: Mapping[int, Sequence[Call]], at: Mapping[int, int]) -> Parted:
    """Returns which of two ranks differs from its cohort, at the call with index `at[rank]` of its whole history.

    The other rank has to agree with its cohort, or has too small a cohort.
    """
    ground: list[str] = []
    odd: list[int] = []
    for rank, index in at.items():
        own = histories[rank]
        cohort = {
            other: calls[index]
            for other, calls in histories.items()
            if other not in at and len(calls) > index and calls[:index] == own[:index]
        }
        same = [other for other, call in cohort.items() if call == own[index]]
        others = [other for other in cohort if other not in same]
        if len(cohort) < COHORT:
            ground.append(f"rank {rank} called {own[index]}; fewer than {COHORT} ranks have its history")
            continue
        ground += [f"rank {rank} called {own[index]}"] + [
            f"{ranks_text(some)}, with the same history, {did}"
            for some, did in ((same, "called the same"), (others, "called otherwise"))
            if some
        ]
        if 2 * len(others) > len(cohort):
            odd.append(rank)
        elif 2 * len(same) <= len(cohort):
            return Parted((), index, tuple(ground))
    return Parted(tuple(odd) if len(odd) == 1 else (), next(iter(at.values())), tuple(ground))
