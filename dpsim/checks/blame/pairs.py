"""Pairs: two sides whose numbers of calls have to be equal in each step. A part of `uneven`.

rank 0 -> rank 1      the sends of rank 0, and the receives of rank 1
group of ranks 0, 1   the calls of rank 0, and those of rank 1
group of ranks 0-3    the calls of rank 2, if it alone has other numbers of calls, and those of a peer
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from dpsim.checks.blame.steps import Name, name_of
from dpsim.checks.run_index import Entry, RunIndex

RankCalls: TypeAlias = tuple[int, list[Entry], int]
"""A rank, its calls on one side, and the number of ranks that it represents."""


class Side(NamedTuple):
    """The calls of one rank on one side, and the names to which rules apply: its own, and those of similar sides.

    `represents` is the number of group members that are like this rank.
    """

    rank: int
    calls: list[Entry]
    names: frozenset[Name]
    represents: int = 1


def pairs(run_index: RunIndex, groups_of: int) -> Iterator[tuple[Side, Side]]:
    """Yields both sides of each direction of transfers, and two members of each group with at most
    `groups_of` members.
    """
    found: list[tuple[RankCalls, ...]] = [
        ((sender, line.sends, 1), (receiver, line.receives, 1))
        for (_, sender, receiver), line in run_index.transfers.items()
    ]
    groups = [members for members in run_index.collectives.values() if 1 < len(members) <= groups_of]
    found += [pair for members in groups if (pair := _of_group(members))]
    kinds = [tuple(frozenset(name_of(entry.raw) for entry in calls) for _, calls, _ in pair) for pair in found]
    for pair, mine in zip(found, kinds, strict=True):
        like = [kind for kind in kinds if mine[0] & kind[0] or mine[1] & kind[1]]
        one, other = (
            Side(rank, calls, frozenset(name for kind in like for name in kind[which]), number)
            for which, (rank, calls, number) in enumerate(pair)
        )
        yield one, other


def _of_group(members: Mapping[int, list[Entry]]) -> tuple[RankCalls, ...]:
    """Returns the two members of a small group. Of a larger one, the only member with other numbers of calls, and a
    peer.
    """
    if len(members) == 2:
        return tuple((rank, calls, 1) for rank, calls in members.items())
    alike: dict[frozenset[tuple[int, int]], list[int]] = {}
    for rank, calls in members.items():
        alike.setdefault(frozenset(Counter(entry.step for entry in calls).items()), []).append(rank)
    odd, *others = sorted(alike.values(), key=len)
    if len(odd) > 1 or len(others) != 1:
        return ()
    return tuple((ranks[0], members[ranks[0]], len(ranks)) for ranks in (odd, others[0]))
