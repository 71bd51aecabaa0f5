"""Tests that scenarios of `dp_batch` that Hypothesis draws are proven, and that planted bugs shrink to the smallest
world.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from dpsim.scenario import Scenario, dump_scenario, scenario_from
from dpsim.testing import holds, scenarios
from tests.campaign.test_properties import says_how_it_fails, shrunk


def smallest(variant: str) -> Scenario:
    """Returns the smallest world: two ranks and one request of one prompt and one output token."""
    work = {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}
    topology = {"data_parallel_size": 2}
    return scenario_from({"name": "drawn", "topology": topology, "workload": work, "protocol": {"variant": variant}})


@given(scenarios(max_faults=0, form="source-000"))
@pytest.mark.slow
def test_drawn_scenarios_of_the_batch_protocol_are_proven(scenario: Scenario) -> None:
    assert holds(scenario).verdict == "proven"


@pytest.mark.parametrize("variant", ["M-DP-1", "M-DP-9"])
@pytest.mark.slow
def test_a_planted_bug_shrinks_to_the_smallest_world(variant: str, tmp_path: Path) -> None:
    scenario, examples, told = shrunk(scenarios(max_faults=0, variant=variant), tmp_path)
    assert scenario == smallest(variant)
    assert dump_scenario(scenario).startswith(f"name: drawn\nprotocol:\n  variant: {variant}\n")
    assert examples <= 400  # 14 for each variant when measured
    says_how_it_fails(scenario, told, tmp_path)
