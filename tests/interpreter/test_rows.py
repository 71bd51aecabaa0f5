"""Nothing missed, nothing invented, no verdict that says more than it knows, on scripts of each row.

A difference is shown as the smallest script that has it. Who looks into one reads the contract first: it says who is
right.
"""

from __future__ import annotations

import pytest

from tests.interpreter.language import Script
from tests.interpreter.reverted import MOST, REVERTED, first_difference
from tests.interpreter.rows import ROWS, drawn
from tests.interpreter.shrink import shrunk
from tests.interpreter.verdicts import judged

QUICK, SLOW, NIGHTLY = 6, 60, 250
"""Scripts of each row: with ten rows the night has 2,500."""

EACH = [pytest.param(row, marks=pytest.mark.runs_once) if row == "modules" else row for row in ROWS]
"""What a script leaves in a module is there in the next run, so that is not repeated for the suite's own sake."""

LARGE = ("threads", "mixed")
"""Rows of which some scripts have more schedules than are run. What those show is compared all the same."""


def check(row: str, seeds: range) -> None:
    known = 0
    for seed in seeds:
        script = drawn(row, seed)
        found = judged(script)
        assert not found.difference, f"{row} {seed}, {found.difference}:\n{smallest(script, found.difference)}"
        known += found.known
    assert known >= len(seeds) * (0.6 if row in LARGE else 0.95), f"{known} of {len(seeds)} were compared whole"


def smallest(script: Script, difference: str) -> str:
    return shrunk(script, lambda one: judged(one).difference == difference).words()


@pytest.mark.parametrize("row", EACH)
def test_few_scripts(row: str) -> None:
    check(row, range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH)
def test_some_scripts(row: str) -> None:
    check(row, range(QUICK, SLOW))


@pytest.mark.nightly
@pytest.mark.parametrize("row", EACH)
def test_many_scripts(row: str) -> None:
    check(row, range(SLOW, NIGHTLY))


@pytest.mark.runs_once
@pytest.mark.parametrize("row", REVERTED)
def test_without_its_repair_a_row_differs(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    REVERTED[row](monkeypatch)
    number, difference = first_difference(row)
    assert number <= MOST, f"{MOST} scripts of {row} do not show it"
    assert difference
