"""Tests that a table which misses a bound is noticed, and that chance is not."""

from __future__ import annotations

import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.world import At, Fault
from tests.blame.plants import Planted
from tests.blame.reaches import Reach, missed
from tests.blame.tables import Row, Table

REACH = Reach(90, 1)


def made(came: str, accused: bool = False) -> Row:
    """Returns a row without running a world."""
    raw = ("collective", 3, "main", "agree", 0, "a.py:1")
    planted = Planted(Fault("skip", 0, At("agree", 0)), "skip", raw)
    against = Finding("ledger", "HANG", "", None, (0, 0)) if accused else None
    return Row("ring", 1, planted, came, None, against)


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
    assert missed(Table.of("ring", [made(came) for came in seen]), REACH) == said


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
    assert missed(Table.of("ring", [made(came) for came in seen]), Reach(85, 0.5), part) == said


def test_an_accused_healthy_run_is_noticed() -> None:
    assert missed(Table.of("ring", [made("right", accused=True)]), REACH) == ["1 accused"]
