"""Tests the shares of right and wrong culprits that the checks have to reach in each family of random worlds."""

from __future__ import annotations

from math import ceil, comb, floor
from typing import NamedTuple

import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.world import At, Fault
from tests.blame.plants import Planted
from tests.blame.tables import Row, Table
from tests.properties import of_night
from tests.vllm.blame.campaign import rows

SEEDS, ALL = range(5_000, 5_030), range(7_000, 7_450)
MANY = ALL[: of_night(len(ALL))]
CHANCE = 0.01
"""A sample misses a bound if it is less likely than this in a set of worlds that just reaches the bound."""


class Reach(NamedTuple):
    """Bounds, in percent of the worlds in which the fault changed the run: the least right share, the largest wrong
    share.
    """

    right: float
    wrong: float


REACHES = {
    "dp_batch": Reach(97, 0),
    "pp_tokens": Reach(85, 0.5),
    "engine": Reach(95, 0.5),
    "whole_engine_dp": Reach(93, 0.5),
    "whole_engine": Reach(85, 0.5),
    "dbo": Reach(90, 1),
    "startup": Reach(85, 1),
}


def missed(table: Table, part: float = 1) -> list[str]:
    """Returns the bounds that a table misses, in words. The bounds are those of a set of worlds, of which the table has
    this part. If it has all of them, chance plays no role.
    """
    reach, sample = REACHES[table.family], table.applied
    worlds = round(sample / part)
    right, wrong = ceil(worlds * reach.right / 100), floor(worlds * reach.wrong / 100)
    others = sample - table.counts["wrong"]
    found = {
        f"{table.share('right'):.1f} % right": at_most(table.counts["right"], sample, right, worlds) < CHANCE,
        f"{table.share('wrong'):.1f} % wrong": at_most(others, sample, worlds - wrong, worlds) < CHANCE,
        f"{table.counts['not found']} not found": table.counts["not found"] > 0,
        f"{table.accused} accused": table.accused > 0,
    }
    return [said for said, wrong in found.items() if wrong]


def at_most(seen: int, sample: int, such: int, worlds: int) -> float:
    """Returns how likely a sample of `worlds` has at most `seen` of the `such` worlds with a property."""
    ways = sum(comb(such, number) * comb(worlds - such, sample - number) for number in range(seen + 1))
    return ways / comb(worlds, sample)


@pytest.mark.slow
@pytest.mark.parametrize("family", REACHES)
def test_of_thirty_worlds_no_rank_is_blamed_wrongly(family: str) -> None:
    table = Table.of(family, list(rows(family, SEEDS)))
    print(table.line())
    assert not missed(table)


@pytest.mark.nightly
@pytest.mark.parametrize("family", REACHES)
def test_of_many_worlds(family: str) -> None:
    table = Table.of(family, list(rows(family, MANY)))
    print(table.line())
    assert not missed(table, len(MANY) / len(ALL))


def made(came: str, accused: bool = False) -> Row:
    """Returns a row without running a world."""
    raw = ("collective", 3, "main", "agree", 0, "a.py:1")
    planted = Planted(Fault("skip", 0, At("agree", 0)), "skip", raw)
    against = Finding("ledger", "HANG", "", None, (0, 0)) if accused else None
    return Row("dbo", 1, planted, came, None, against)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (["right"] * 90 + ["undecided"] * 10, []),
        (["right"] * 89 + ["undecided"] * 11, ["89.0 % right"]),
        (["right"] * 98 + ["wrong"] * 2, ["2.0 % wrong"]),
        (["right"] * 99 + ["not found"], ["1 not found"]),
        (["right"] * 90 + ["undecided"] * 10 + ["never applied"] * 50, []),
    ],
)
def test_a_table_that_reaches_less_is_noticed(seen: list[str], said: list[str]) -> None:
    assert missed(Table.of("dbo", [made(came) for came in seen])) == said


@pytest.mark.parametrize(
    ("right", "wrong", "part", "said"),
    [
        (38, 0, 0.1, []),
        (38, 0, 1, ["84.4 % right"]),
        (31, 0, 0.1, ["68.9 % right"]),
        (44, 1, 0.1, []),
        (44, 1, 1, ["2.2 % wrong"]),
        (42, 3, 0.1, ["6.7 % wrong"]),
    ],
)
def test_a_part_of_the_worlds_misses_a_bound_only_beyond_chance(
    right: int, wrong: int, part: float, said: list[str]
) -> None:
    """The bounds are 85 and 0.5 percent. If there are 45 worlds, 38 right ones are too few. Of 450 worlds, such a
    sample is likely.
    """
    seen = ["right"] * right + ["wrong"] * wrong + ["undecided"] * (45 - right - wrong)
    assert missed(Table.of("pp_tokens", [made(came) for came in seen]), part) == said


def test_an_accused_healthy_run_is_noticed() -> None:
    assert missed(Table.of("dbo", [made("right", accused=True)])) == ["1 accused"]
