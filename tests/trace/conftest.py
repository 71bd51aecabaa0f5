"""Fixtures of the tests of traces: one run of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim.contract.ops import RawRecord
from dpsim.contract.world import Run
from tests.trace.runs import simulate


@pytest.fixture
def healthy() -> Run:
    """All ranks agree and finish."""
    return simulate()


@pytest.fixture
def hung() -> Run:
    """Rank 1 leaves out its third agreement, and no rank can move any more."""
    return simulate(("skip", 1, "dp.agree", 2))


@pytest.fixture
def crashed() -> Run:
    """Two of three ranks are idle, and a variant of the protocol makes them raise."""
    return simulate(variant="T-STRICT", tokens=(5, 0, 0))


@pytest.fixture
def edited(healthy: Run) -> Callable[[int, Callable[[list[RawRecord]], object]], Run]:
    """`edited(rank, change)`: the healthy run after `change` was done to the journal of `rank`."""

    def edit(rank: int, change: Callable[[list[RawRecord]], object]) -> Run:
        journals = [list(journal) for journal in healthy.journals]
        change(journals[rank])
        return replace(healthy, journals=journals)

    return edit
