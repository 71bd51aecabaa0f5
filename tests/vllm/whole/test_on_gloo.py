"""Tests that whole engines on gloo processes and on two GPUs do the same in the same order as in the simulation.

The arrival of messages is a race on real machines. In worlds of one request, it changes only how often a service polls
a mailbox. So the comparison leaves out the messages of services (`computed`). Workers with a separate core execute its
calls one by one, so the comparison includes all their records.

In the scenarios, races also decide which core batches which request. There, gates deliver the messages in the
simulation's order, and the comparison includes all records of all actors.
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
    """Returns the backend's name.

    Its workers stay alive for the tests of other files, until dpsim's pytest plugin ends them.
    """
    return "gloo"


def both(told: Scenario, backend: str) -> tuple[Result, Result]:
    real, simulated = run_scenario(told, backend), run_scenario(told)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    return real, simulated


@pytest.mark.slow  # each quick run tests whole_engine_dp.yaml on gloo
@pytest.mark.parametrize("name", RANK)
def test_whole_data_parallel_engines_on_gloo_compute_what_the_simulation_does(gloo: str, name: str) -> None:
    real, simulated = both(scenario([request(6, 3)], interval=4, **RANK[name]), gloo)
    for rank in range(real.world.size):
        here, there = (computed(one.run.journals[rank]) for one in (real, simulated))
        for split in (fold.threads, fold.communicators, fold.streams, fold.decisions):
            assert split(here) == split(there), f"rank {rank}"


@pytest.mark.slow  # each quick run tests whole_engine_small.yaml on gloo
@pytest.mark.parametrize("name", STAGES)
def test_the_whole_engine_on_gloo_computes_what_the_simulation_does(gloo: str, name: str) -> None:
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
    """With messages in the simulation's order, all actors, including services, do the same in the same order."""
    assert len(same_on(load_scenario(scenario_path(name)), gloo, schedules=3)) == 3


@pytest.mark.gpu(2)
@pytest.mark.parametrize("name", RANK)
def test_whole_engine_dp_on_gpus(name: str) -> None:
    test_whole_data_parallel_engines_on_gloo_compute_what_the_simulation_does("nccl", name)


@pytest.mark.gpu(2)
def test_scenario_on_gpus() -> None:
    test_scenarios_on_gloo("nccl", "whole_engine_dp")


@pytest.mark.slow
def test_microbatches_in_a_pipeline(gloo: str) -> None:
    """Threads arrive at source page 001's barrier in the simulation's order, so all records are equal."""
    [one] = same_on(load_scenario(scenario_path("whole_engine_split")), gloo, schedules=1)
    assert one.result.findings == []
