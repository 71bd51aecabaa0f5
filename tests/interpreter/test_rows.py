"""Tests on the scripts of each row that dpsim misses and invents no outcome, and that no verdict claims too much.

If a script differs, the test prints the smallest script that shows the difference. Read the contract
(`dpsim/contract/interface.py`) to decide which side is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interpreter.language import Script
from tests.interpreter.reverted import MOST, REVERTED, first_difference
from tests.interpreter.rows import ROWS, drawn
from tests.interpreter.shrink import shrunk
from tests.interpreter.verdicts import judged

QUICK, SLOW, NIGHTLY = 6, 60, 250
"""The ends of the ranges of scripts of each row, in the quick, the slow and the nightly suite."""

BLOCK = 48
"""The scripts of a nightly test of a large row, of which the slow test has half as many."""

EACH = [pytest.param(row, marks=pytest.mark.runs_once) if row == "modules" else row for row in ROWS]
"""The rows, of which `modules` runs only once: a script leaves values in a module, so the suite's repeated run would
differ.
"""

LARGE = ("threads", "mixed")
"""Rows in which some scripts have more schedules than the limit. The test still compares those that ran."""


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
def test_the_two_agree_on_few_scripts_of_each_row(row: str) -> None:
    check(row, range(QUICK))


def slow_end(row: str) -> int:
    return QUICK + BLOCK // 2 if row in LARGE else SLOW


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH)
def test_the_two_agree_on_some_scripts_of_each_row(row: str) -> None:
    check(row, range(QUICK, slow_end(row)))


def nightly_blocks() -> list[Any]:
    """Returns each row with the ranges of its nightly tests: one range, or several blocks of a large row."""
    blocks = [
        (row, range(slow_end(row), NIGHTLY)[at : at + size])
        for row in ROWS
        for size in (BLOCK if row in LARGE else NIGHTLY,)
        for at in range(0, NIGHTLY - slow_end(row), size)
    ]
    once = {"modules": [pytest.mark.runs_once]}
    return [pytest.param(row, seeds, marks=once.get(row, []), id=f"{row}-{seeds.start}") for row, seeds in blocks]


@pytest.mark.nightly
@pytest.mark.parametrize(("row", "seeds"), nightly_blocks())
def test_the_two_agree_on_many_scripts_of_each_row(row: str, seeds: range) -> None:
    check(row, seeds)


@pytest.mark.runs_once
@pytest.mark.parametrize("row", REVERTED)
def test_without_its_repair_a_row_differs(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    REVERTED[row](monkeypatch)
    number, difference = first_difference(row)
    assert number <= MOST, f"{MOST} scripts of {row} do not show it"
    assert difference
