"""Fixtures for the tests of traces: one run of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim.contract.ops import RawRecord
from dpsim.contract.world import Run
from tests.trace.runs import simulate


@pytest.fixture
def healthy() -> Run:
    """A run in which all ranks agree and finish."""
    return simulate()


@pytest.fixture
def hung() -> Run:
    """A run in which rank 1 omits its third agreement, so that the ranks hang."""
    return simulate(("skip", 1, "dp.agree", 2))


@pytest.fixture
def crashed() -> Run:
    """A run in which two of three ranks are idle, and a variant of the protocol makes them raise."""
    return simulate(variant="T-STRICT", tokens=(5, 0, 0))


@pytest.fixture
def edited(healthy: Run) -> Callable[[int, Callable[[list[RawRecord]], object]], Run]:
    """`edited(rank, change)` returns the healthy run after `change` has edited the journal of `rank`."""

    def edit(rank: int, change: Callable[[list[RawRecord]], object]) -> Run:
        journals = [list(journal) for journal in healthy.journals]
        change(journals[rank])
        return replace(healthy, journals=journals)

    return edit
