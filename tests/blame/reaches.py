"""Reaches: the shares of right and wrong culprits that a campaign has to reach.

    reach = Reach(right=85, wrong=0.5)
    missed(table, reach)               # ["84.4 % right"], or empty
    missed(table, reach, part=0.1)     # the same for a tenth of the worlds of the bound

A bound holds for a set of worlds; a sample of them misses it by chance now and then.
"""

from __future__ import annotations

from math import ceil, comb, floor
from typing import NamedTuple

from tests.blame.tables import Table

CHANCE = 0.01
"""A sample misses a bound if it is less likely than this in a set of worlds that just reaches the bound."""


class Reach(NamedTuple):
    """Bounds, in percent of the worlds in which the fault changed the run: the least right share, the largest wrong
    share. A run at which the judge failed is wrong.
    """

    right: float
    wrong: float


def missed(table: Table, reach: Reach, part: float = 1) -> list[str]:
    """Returns the bounds that a table misses, in words. The bounds are those of a set of worlds, of which the table has
    this part. If it has all of them, chance plays no role.
    """
    sample = table.applied
    worlds = round(sample / part)
    right, wrong = ceil(worlds * reach.right / 100), floor(worlds * reach.wrong / 100)
    others = sample - table.counts["wrong"] - table.counts["judge failed"]
    found = {
        f"{table.share('right'):.1f} % right": at_most(table.counts["right"], sample, right, worlds) < CHANCE,
        f"{table.share('wrong') + table.share('judge failed'):.1f} % wrong": at_most(
            others, sample, worlds - wrong, worlds
        )
        < CHANCE,
        f"{table.counts['not found']} not found": table.counts["not found"] > 0,
        f"{table.accused} accused": table.accused > 0,
    }
    return [said for said, wrong in found.items() if wrong]


def at_most(seen: int, sample: int, such: int, worlds: int) -> float:
    """Returns how likely a sample of `worlds` has at most `seen` of the `such` worlds with a property."""
    ways = sum(comb(such, number) * comb(worlds - such, sample - number) for number in range(seen + 1))
    return ways / comb(worlds, sample)
