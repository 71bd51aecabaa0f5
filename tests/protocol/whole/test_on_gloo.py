"""Whole engines on processes with gloo: each actor does what it does on the simulation, in the same order.

When a message comes is a race that every machine decides for itself. These are worlds of one request, in which nothing
but the number of looks into a mailbox depends on it, so mail is left out (`computed`).
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.runner import run_scenario
from dpsim.scenario import Scenario
from dpsim.trace import fold
from tests.protocol.whole.test_rank_program import CAPTURED, DRAFTS, EAGER, SPLIT
from tests.protocol.whole.whole_worlds import computed, request, scenario

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

RANK: dict[str, dict[str, Any]] = {
    "eager": EAGER,
    "async": {"async_scheduling": True},
    "captured": CAPTURED,
    "drafts": DRAFTS | {"async_scheduling": True},
    "split": SPLIT | CAPTURED | {"cudagraph_mode": "FULL_DECODE_ONLY"},
}


@pytest.fixture
def gloo() -> str:
    """Its workers stay warm for the tests of other files; the plugin of dpsim ends them with the session."""
    return "gloo"


def same_as_simulated(told: Scenario, backend: str) -> None:
    real, simulated = run_scenario(told, backend), run_scenario(told)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    for rank in range(real.world.size):
        here, there = (computed(one.run.journals[rank]) for one in (real, simulated))
        for split in (fold.threads, fold.communicators, fold.streams, fold.decisions):
            assert split(here) == split(there), f"rank {rank}"


@pytest.mark.parametrize("name", RANK)
def test_whole_engine_dp(gloo: str, name: str) -> None:
    same_as_simulated(scenario([request(6, 3)], interval=4, **RANK[name]), gloo)
