"""Plain calls: ranks with equal lists of calls so far, and the ones that depart from the others.

There are no steps and no sites. A history is the plain list of a rank's calls, as in the dump of a flight recorder. The
caller of this module defines a call: op, count, type, kind of group, a peer as a distance.

In one group all members make the same calls, so the first call in which their histories differ divides them:

    ranks 0, 1, 3   all_reduce 8   all_gather 4   all_reduce 8
    rank 2          all_reduce 8   all_reduce 8                    ->   rank 2 departs from three others

Two members have no majority. But other groups of the same kind have members with the same history, their cohorts. A
member is odd if most of its cohort made another call there. It is sound if most made the same:

    group 0   rank 0  broadcast 4  send 8        rank 1  barrier  receive 8
    group 1   rank 2  broadcast 4  send 8        rank 3  barrier  receive 8
    group 2   rank 4  broadcast 4  send 9        rank 5  barrier  receive 8      ->   rank 4 differs from ranks 0, 2

If neither decides, this module names no rank, and the ground has the evidence for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.checks.run_index import split
from dpsim.contract.words import ranks_text

Call: TypeAlias = Hashable
"""A call of a rank: equal values are equal calls. The ground shows its text."""

COHORT = 2
"""The smallest number of ranks of a cohort, without the rank that is compared with it."""


class Parted(NamedTuple):
    """The ranks that depart from the others, none if nothing decides; `at`: the index of the call in the histories; and
    the evidence.
    """

    ranks: tuple[int, ...]
    at: int
    ground: tuple[str, ...]


def in_one_group(histories: Mapping[int, Sequence[Call]]) -> Parted | None:
    """The first call in which members of a group differ. None if there is none: a shorter list is only behind."""
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
    """The ranks in `at` that depart from their cohorts in the call at this index of their whole histories. The others
    have to equal their cohorts, or have none.
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
