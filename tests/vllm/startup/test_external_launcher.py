"""Tests engines that an external launcher starts: each engine derives its data-parallel rank from its RANK variable."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest

from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, scenario_from
from dpsim.vllm.programs.startup import Startup


def launched(form: str = "0.33", sizes: Mapping[str, int] | None = None) -> Scenario:
    return scenario_from(
        {
            "name": "launched",
            "protocol": {"name": "startup", "form": form},
            "topology": {"data_parallel_size": 2, **(sizes or {})},
            "config": {"distributed_executor_backend": "external_launcher", "parallel_rules": "0.33"},
            "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]},
        }
    )


def test_each_launched_engine_has_its_own_data_parallel_rank() -> None:
    """Each engine's replica is RANK // (world size // D). If all had the same RANK, each engine would be replica 0."""
    for pp, pcp, tp in product((1, 2), repeat=3):
        sizes = {"pipeline_parallel_size": pp, "prefill_context_parallel_size": pcp, "tensor_parallel_size": tp}
        engines = Startup().prepare(launched(sizes=sizes).arguments()).engines
        assert [(each.data_parallel_rank, each.data_parallel_index) for each in engines] == [(0, 0), (1, 1)]
        assert {each.world_size for each in engines} == {2 * pp * pcp * tp}


@pytest.mark.parametrize("form", ["0.14", "0.33"])
def test_launched_engines_start(form: str) -> None:
    """The engines start. With equal data-parallel ranks they would use the same random seed, and fail."""
    assert run_scenario(launched(form)).verdict == "held"
