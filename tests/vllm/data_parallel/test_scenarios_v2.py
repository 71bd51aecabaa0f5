"""Random scenarios of `dp_batch` on the V2 runner, drawn as a user draws them: no check reports a finding.

The agreement check compares the decisions of the ranks, and it reports mutants of the agreement.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.runner import run_scenario
from dpsim.scenario import Scenario
from dpsim.vllm.config import CUDAGraphMode
from dpsim.vllm.params.strategies import configs, scenarios, topologies
from tests.properties import breaks, examples, holds

THRESHOLDS = {
    "cudagraph_mode": CUDAGraphMode.NONE,
    "enable_dbo": True,
    "dbo_decode_token_threshold": 2,
    "dbo_prefill_token_threshold": 512,
}


def drawn(variant: str, **config: Any) -> st.SearchStrategy[Scenario]:
    """Draws scenarios with all ranks, tensor parallelism and microbatches of the form, but without adapters."""
    whole = configs().map(lambda one: one.model_copy(update={"enable_lora": False, **config}))
    ranks = topologies(min_data_parallel=2)
    return scenarios(max_faults=0, form="v2-0.33", variant=variant, topology=ranks, config=whole)


def held(scenario: Scenario) -> None:
    found = [finding.klass for finding in run_scenario(scenario).findings]
    assert found == [], f"found: {found}"


@examples(8, 300)
def test_the_repaired_v2_runner_has_no_finding_in_random_worlds(examples: int) -> None:
    """Release 0.33 with its two defects repaired has no finding."""
    holds(held, drawn("v2-repaired"), examples)


@pytest.mark.parametrize(
    ("variant", "config", "found"), [("M-DP-12", {}, "HANG:P2P"), ("M-UB-12", THRESHOLDS, "DISAGREEMENT:PLAN")]
)
def test_a_mistake_is_found(variant: str, config: dict[str, Any], found: str) -> None:
    breaks(held, drawn(variant, **config), f"found: .*{found}")
