"""Runs the same worlds on real processes with gloo: the journals equal those of the simulator, record by record."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.runner import run_scenario
from dpsim.scenario import Scenario
from dpsim.vllm.params.arguments import Request
from tests.records import unplaced
from tests.vllm.data_parallel.batch_worlds import decodes, line_up, prefill, scenario

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

SPLIT: dict[str, Any] = {"enable_dbo": True, "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 2}
DRAFTS: dict[str, Any] = {"num_speculative_tokens": 3, "speculative_method": "mtp", "speculative_max_model_len": 11}
CAPTURED: dict[str, Any] = {"capture_graphs": True, "cudagraph_capture_sizes": [1, 2, 4], "max_num_seqs": 4}
BALANCED: dict[str, Any] = {
    "enable_expert_parallel": True,
    "enable_eplb": True,
    "eplb_config": {"step_interval": 2},
}
WORLDS: list[tuple[list[Request], dict[str, Any]]] = [
    (line_up(decodes(3, 2), prefill(9, 3)), {"cudagraph_mode": "NONE"}),
    (line_up(decodes(3, 2), decodes(4, 2)), SPLIT),
    (line_up(decodes(5, 3), []), {"async_scheduling": True}),
    (line_up(prefill(40), decodes(2, 4)), {"max_num_batched_tokens": 16, "max_num_seqs": 4, "async_scheduling": True}),
    (line_up(decodes(4, 2), prefill(6)), {"num_speculative_tokens": 1, "cudagraph_capture_sizes": [2, 4, 8]}),
    (line_up(decodes(2, 2), prefill(9, 3)), DRAFTS),
    (line_up(prefill(9, 2, prefix="same") * 2, prefill(14)), SPLIT | {"form": "0.33", "block_size": 4}),
    (line_up(decodes(1, 4), prefill(3, 2)), CAPTURED),
    (line_up(decodes(2, 3), prefill(9, 2)), CAPTURED | {"cudagraph_mode": "PIECEWISE", "async_scheduling": True}),
    (line_up(decodes(2, 4), prefill(9, 3)), BALANCED),
    (line_up(decodes(2, 2), prefill(9, 3)), DRAFTS | {"form": "v2-0.33", "speculative_max_model_len": None}),
    (line_up(decodes(3, 2), decodes(4, 2)), SPLIT | {"form": "v2-0.33", "cudagraph_mode": "FULL_DECODE_ONLY"}),
    (line_up(decodes(1, 4), prefill(3, 2)), CAPTURED | {"form": "v2-0.33"}),
    (line_up(prefill(3, 2), []), {"form": "v2-0.17", "cudagraph_capture_sizes": [1, 2]}),
    (line_up(prefill(5, 2, encoder_inputs=True), prefill(7)), DRAFTS | {"form": "0.14", "async_scheduling": True}),
]


@pytest.fixture
def gloo() -> str:
    """The name of the backend. Its workers stay alive for other files, until dpsim's pytest plugin ends them."""
    return "gloo"


def same_as_simulated(told: Scenario, backend: str) -> list[str]:
    """Asserts that a scenario has equal journals on a backend and on the simulator. Returns the classes of findings."""
    real, simulated = run_scenario(told, backend), run_scenario(told)
    found = [finding.klass for finding in simulated.findings]
    assert [finding.klass for finding in real.findings] == found
    for rank in range(real.world.size):
        assert unplaced(real.run.journals[rank]) == unplaced(simulated.run.journals[rank]), f"rank {rank}"
    return found


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_worlds_on_gloo_have_the_journals_of_the_simulation(gloo: str, number: int) -> None:
    """The journals of each world on gloo equal those of the simulator, without a finding."""
    requests, config = WORLDS[number]
    assert same_as_simulated(scenario(requests, **config), gloo) == []


@pytest.mark.parametrize(("mutant", "config"), [("M-DP-17", {}), ("M-DP-18", {"cudagraph_mode": "NONE"})])
def test_dropped_tokens_on_gloo(gloo: str, mutant: str, config: dict[str, Any]) -> None:
    """Variants that drop a token have the same finding on gloo: only the rank that drops the token raises.

    It raises in the last step, so no rank waits for it.
    """
    told = scenario(line_up(decodes(1), decodes(2)), variant=mutant, **config)
    assert same_as_simulated(told, gloo) == ["CRASH:DROPPEDTOKENS"]


@pytest.mark.gpu(2)
def test_worlds_on_two_gpus_have_the_journals_of_the_simulation() -> None:
    """The journals on two GPUs equal those of the simulator. The workers stay alive for other tests."""
    for requests, config in WORLDS:
        assert same_as_simulated(scenario(requests, **config), "nccl") == []
