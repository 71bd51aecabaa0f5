"""Tests the shares of right and wrong culprits that the checks have to reach in each family of random worlds."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.world import At, Fault
from tests.properties import of_night
from tests.vllm.blame.campaign import Row, Table, rows
from tests.vllm.blame.plants import Planted

SEEDS, MANY = range(5_000, 5_030), range(7_000, 7_000 + of_night(450))


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


def missed(table: Table) -> list[str]:
    """Returns the bounds that a table misses, in words."""
    reach = REACHES[table.family]
    found = {
        f"{table.share('right'):.1f} % right": table.share("right") < reach.right,
        f"{table.share('wrong'):.1f} % wrong": table.share("wrong") > reach.wrong,
        f"{table.counts['not found']} not found": table.counts["not found"] > 0,
        f"{table.accused} accused": table.accused > 0,
    }
    return [said for said, wrong in found.items() if wrong]


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
    assert not missed(table)


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


def test_an_accused_healthy_run_is_noticed() -> None:
    assert missed(Table.of("dbo", [made("right", accused=True)])) == ["1 accused"]
