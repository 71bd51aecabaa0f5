"""Compares dpsim with the interpreter of hosts on random scripts: dpsim must miss no outcome and invent none.

If the two differ, the test prints the smallest script that shows the difference. Read the contract
(`dpsim/contract/interface.py`) to decide which of the two is wrong.
"""

from __future__ import annotations

import pytest

from tests.interpreter.hosts.campaign import FEATURES, Tally, campaign, smallest
from tests.interpreter.hosts.generator import random_script
from tests.interpreter.hosts.reverted import MOST, REVERTED, first_difference
from tests.properties import nightly_but

QUICK, SLOW, NIGHTLY = 8, 100, 250
"""The numbers of scripts that a test compares whole."""

SLOW_FROM, NIGHTLY_FROM = 1_000, 10_000

SOON = ("only senders serve", "own aborts first", "lost messages", "groups", "looks")
"""The reverted repairs that the first few scripts show."""

RARE = 15
"""Each feature is in at least one of this many scripts."""


def check(first: int, whole: int) -> Tally:
    tally = campaign(first, whole)
    for seed, difference in tally.differences.items():
        raise AssertionError(f"seed {seed}, {difference}:\n{smallest(random_script(seed)).words()}\n{tally}")
    assert tally.whole == whole, tally
    return tally


def test_the_two_agree_on_few_scripts() -> None:
    check(0, QUICK)


def enough(tally: Tally) -> None:
    """Checks that the scripts mix the features, and that most leave something to chance."""
    for feature in FEATURES:
        assert tally.had[feature] >= tally.whole / RARE, f"too few {feature}: {tally}"
    assert tally.had["rich"] >= tally.whole / 4, tally
    assert tally.had["more than one outcome"] >= tally.whole / 2, tally


@pytest.mark.slow
def test_the_two_agree_on_some_scripts() -> None:
    enough(check(SLOW_FROM, SLOW))


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(4))
def test_the_two_agree_on_many_scripts(block: int) -> None:
    enough(check(NIGHTLY_FROM * (block + 1), NIGHTLY))


def test_a_draw_without_a_feature_is_noticed() -> None:
    with pytest.raises(AssertionError, match="too few"):
        enough(Tally(whole=100, seeds=100))


@pytest.mark.runs_once
@pytest.mark.parametrize("name", nightly_but(REVERTED, lambda name: name in SOON))
def test_without_a_repair_the_two_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    REVERTED[name](monkeypatch)
    number, difference = first_difference()
    assert number <= MOST, f"{MOST} scripts do not show it"
    assert difference
