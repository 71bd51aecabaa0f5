"""The same tokens, in the same order, on processes with gloo: journals are the simulation's, record by record.

Worlds of two and three stages, fixed, and the scenarios that come with dpsim. What memory does is not claimed there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsim.ops import RawRecord
from dpsim.runner import run_scenario, warm_backends
from dpsim.scenario import Scenario, load_scenario, scenario_from
from dpsim.scenario.locate import scenario_path

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

REQUESTS = [
    {"arrival": "0ms", "prompt_tokens": 5, "output_tokens": 6},
    {"arrival": "20ms", "prompt_tokens": 9, "output_tokens": 5, "abort": "120ms"},
    {"arrival": "80ms", "prompt_tokens": 3, "output_tokens": 7},
    {"arrival": "120ms", "prompt_tokens": 2, "output_tokens": 3},
]

DRAWS = [
    (2, "0.14", {"num_speculative_tokens": 0}),
    (2, "source-002", {"num_speculative_tokens": 2, "async_scheduling": True}),
    (2, "0.33", {"num_speculative_tokens": 1, "max_num_seqs": 1}),
    (3, "0.14", {"num_speculative_tokens": 1, "async_scheduling": True}),
    (3, "source-002", {"num_speculative_tokens": 3}),
    (3, "0.33", {"num_speculative_tokens": 0, "async_scheduling": True}),
]


def scenario(stages: int, form: str, config: dict[str, object]) -> Scenario:
    limits = {"max_num_seqs": 2, "max_num_batched_tokens": 8, "cudagraph_mode": "NONE"}
    return scenario_from(
        {
            "name": f"pp{stages}",
            "protocol": {"name": "pp_tokens", "form": form},
            "topology": {"pipeline_parallel_size": stages},
            "config": {**limits, **config},
            "workload": {"requests": REQUESTS},
            "limits": {"stall": "60s"},
        }
    )


@pytest.fixture(scope="module")
def gloo() -> Iterator[str]:
    with warm_backends():
        yield "gloo"


def same_as_simulated(scenario: Scenario, backend: str) -> None:
    real, simulated = run_scenario(scenario, backend), run_scenario(scenario)
    assert real.findings == simulated.findings == []
    for rank in range(real.world.size):
        assert unplaced(real.run.journals[rank]) == unplaced(simulated.run.journals[rank]), f"rank {rank}"


def unplaced(journal: list[RawRecord]) -> list[RawRecord]:
    """Without the places of memory, which are each machine's own."""
    return [record[:-1] if record[0] == "alloc" else record for record in journal]


@pytest.mark.parametrize(("stages", "form", "config"), DRAWS)
def test_on_gloo(gloo: str, stages: int, form: str, config: dict[str, object]) -> None:
    same_as_simulated(scenario(stages, form, config), gloo)


def test_free_in_flight_on_gloo(gloo: str) -> None:
    same_as_simulated(load_scenario(scenario_path("pp2_free_in_flight")), gloo)


@pytest.mark.gpu(2)
def test_two_stages_on_gpus() -> None:
    with warm_backends():
        same_as_simulated(load_scenario(scenario_path("pp2_free_in_flight")), "nccl")


@pytest.mark.gpu(4)
def test_four_stages_on_gpus() -> None:
    with warm_backends():
        same_as_simulated(load_scenario(scenario_path("pp4_free_in_flight")), "nccl")
