"""Whole engines on processes with gloo, and on two GPUs: each actor does the same as on the simulation, in that order.

When a message comes is a race that every machine decides for itself. In worlds of one request only the number of looks
into a mailbox depends on it, so the mail of services is left out (`computed`). Workers with a separate core make its
calls one by one, so all that they do is compared. In the scenarios races decide which core batches what. There messages
come as in a run of the simulation, and all that any actor does is compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.testing.elsewhere import same_on
from dpsim.trace import fold
from tests.records import unplaced
from tests.vllm.whole import test_program, test_rank_program
from tests.vllm.whole.whole_worlds import EAGER, computed, request, scenario

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

SPLIT = {**test_rank_program.SPLIT, **test_rank_program.CAPTURED, "cudagraph_mode": "FULL_DECODE_ONLY"}
RANK: dict[str, dict[str, Any]] = {
    "split": SPLIT,
    "captured": test_rank_program.CAPTURED,
    "eager": EAGER,
    "split on v2": SPLIT | {"swaps": {"runner": "v2"}},
    "experts": test_rank_program.EXPERTS | test_rank_program.DRAFTS,
    "drafts": test_rank_program.DRAFTS | {"async_scheduling": True},
}
STAGES: dict[str, dict[str, Any]] = {
    "captured": test_program.CAPTURED | {"num_speculative_tokens": 1},
    "eager": EAGER,
    "async": EAGER | {"async_scheduling": True},
    "source": EAGER | {"form": "source"},
    "grammar": EAGER | {"async_scheduling": True},
}


@pytest.fixture
def gloo() -> str:
    """Its workers stay warm for the tests of other files; the plugin of dpsim ends them with the session."""
    return "gloo"


def both(told: Scenario, backend: str) -> tuple[Result, Result]:
    real, simulated = run_scenario(told, backend), run_scenario(told)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    return real, simulated


@pytest.mark.slow  # whole_engine_dp.yaml is on gloo in every run
@pytest.mark.parametrize("name", RANK)
def test_whole_engine_dp(gloo: str, name: str) -> None:
    real, simulated = both(scenario([request(6, 3)], interval=4, **RANK[name]), gloo)
    for rank in range(real.world.size):
        here, there = (computed(one.run.journals[rank]) for one in (real, simulated))
        for split in (fold.threads, fold.communicators, fold.streams, fold.decisions):
            assert split(here) == split(there), f"rank {rank}"


@pytest.mark.slow  # whole_engine_small.yaml is on gloo in every run
@pytest.mark.parametrize("name", STAGES)
def test_whole_engine(gloo: str, name: str) -> None:
    asked = request(6, 3) | {"structured_output": name == "grammar"}
    real, simulated = both(scenario([asked], interval=4, **test_program.SMALL | STAGES[name]), gloo)
    workers, cores = range(real.world.size), range(real.world.size, real.world.size + 2)
    for rank in workers:
        assert unplaced(real.run.journals[rank]) == unplaced(simulated.run.journals[rank]), f"rank {rank}"
    for core in cores:
        assert computed(real.run.journals[core]) == computed(simulated.run.journals[core]), real.world.actor(core)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "whole_engine_small",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("whole_engine_dp", "whole_engine_dp_v2", "whole_engine")
        ),
    ],
)
def test_scenarios_on_gloo(gloo: str, name: str) -> None:
    """Everybody does the same in the same order, services included: their messages come where the simulation says."""
    assert len(same_on(load_scenario(scenario_path(name)), gloo, schedules=3)) == 3


@pytest.mark.gpu(2)
@pytest.mark.parametrize("name", RANK)
def test_whole_engine_dp_on_gpus(name: str) -> None:
    test_whole_engine_dp("nccl", name)


@pytest.mark.gpu(2)
def test_scenario_on_gpus() -> None:
    test_scenarios_on_gloo("nccl", "whole_engine_dp")


@pytest.mark.slow
def test_microbatches_in_a_pipeline(gloo: str) -> None:
    """Threads meet at the literal barrier of source 001 in the order of the simulation, so all records are equal."""
    [one] = same_on(load_scenario(scenario_path("whole_engine_split")), gloo, schedules=1)
    assert one.result.findings == []
