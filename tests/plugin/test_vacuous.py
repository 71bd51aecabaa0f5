"""Tests that a Hypothesis test fails if ranks coordinated in none of its drawn worlds."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

import dpsim.campaign

pytest_plugins = ["pytester"]

DRAWN = "dpsim.campaign.drawn"

TEST = """
from hypothesis import given, settings, strategies as st

from dpsim.campaign.subject import Subject
from dpsim.testing import holds
from tests.programs import Scripted, world_of


@settings(deadline=None, derandomize=True, max_examples=10)
@given(st.integers(1, 3))
def test_ranks_agree(steps):
    async def script(rank):
        if steps > MOST:
            await rank.host("h").barrier()

    holds(Subject(world_of(2, ["h"]), Scripted(script)))
"""


@pytest.fixture
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the inner session its own counters."""
    monkeypatch.setattr(importlib.import_module(DRAWN), "_counted", {})


@pytest.mark.usefixtures("_forgotten")
@pytest.mark.parametrize("most", [0, 2, 3])
def test_a_test_fails_if_all_its_worlds_are_vacuous(pytester: pytest.Pytester, most: int) -> None:
    pytester.makepyfile(TEST.replace("MOST", str(most)))
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=most < 3, failed=most == 3)
    said = "worlds that Hypothesis drew: vacuous, no rank coordinated anything"
    assert (said in result.stdout.str()) == (most == 3)


@pytest.mark.parametrize("most", [2, 3])
def test_a_module_that_an_earlier_session_left_in_its_package_counts_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Runs a session after an earlier one in this process. The earlier session removed its modules from `sys.modules`,
    but the package still has them as attributes.
    """
    stale = ModuleType(DRAWN)
    vars(stale).update(count=lambda *_: None, running_test=str, only_vacuous=lambda _: 0)
    monkeypatch.setattr(dpsim.campaign, "drawn", stale, raising=False)
    monkeypatch.delitem(sys.modules, DRAWN, raising=False)
    pytester.makepyfile(TEST.replace("MOST", str(most)))
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=most < 3, failed=most == 3)
