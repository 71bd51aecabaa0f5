"""Tests the sections of vLLM in scenario files: reading a dumped scenario gives an equal one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario, scenario_from
from dpsim.testing import scenarios

GOOD = "name: good\nworkload:\n  requests:\n    - {prompt_tokens: 4, output_tokens: 2}\n"


def good(lines: str = "") -> Scenario:
    return parse_scenario(GOOD + lines, "good.yaml")


def test_many_requests_are_no_problem() -> None:
    lines = "\n".join(["- {prompt_tokens: 4, output_tokens: 2}"] * 2000)
    scenario = parse_scenario(f"name: many\nworkload:\n  requests:\n{lines.replace('- ', '  - ')}\n")
    assert len(scenario.workload.requests or ()) == 2000


def test_numbers_in_text_fields_stay_text() -> None:
    assert good("protocol: {form: 0.14}").protocol.form == "0.14"


def test_truth_values_of_yaml_1_1_are_truth_values() -> None:
    assert good("config: {enable_dbo: on}").config.enable_dbo
    assert not good("config: {enable_dbo: No}").config.enable_dbo


def test_anchors_and_aliases() -> None:
    scenario = parse_scenario(
        "name: twice\nworkload:\n  requests:\n    - &one {prompt_tokens: 4, output_tokens: 2}\n    - *one\n"
    )
    assert scenario.workload.requests is not None
    assert scenario.workload.requests[0] == scenario.workload.requests[1]


def test_error_in_an_alias_points_at_the_anchor() -> None:
    requests = "    - &one {output_tokens: x, prompt_tokens: 1}\n    - *one\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"name: twice\nworkload:\n  requests:\n{requests}", "x")
    assert [line.partition(".output")[0] for line in str(caught.value).split("\n")] == [
        "x:4:28: workload.requests[0]",
        "x:4:28: workload.requests[1]",
    ]


@given(scenarios())
def test_dump_and_load_is_the_identity(scenario: Scenario) -> None:
    assert parse_scenario(dump_scenario(scenario)) == scenario


@pytest.mark.parametrize("text", ["\x85", "a\x85b", "a\n\x85b"])
def test_a_line_break_that_only_yaml_1_1_knows_survives(text: str) -> None:
    """Text with U+0085, a line break in YAML 1.1 only, survives a dump. PyYAML alone would add spaces after it."""
    config = {"worker_cls": text, "ray_runtime_env": {text: text}}
    work = {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}
    fields = {"name": "x", "description": text, "workload": work, "config": config, "config_by_rank": {0: config}}
    scenario = scenario_from(fields)
    assert parse_scenario(dump_scenario(scenario)) == scenario


@given(
    st.fixed_dictionaries(
        {"requests": st.integers(1, 10**6)},
        optional={"seed": st.integers(0, 2**64 - 1), "rate": st.floats(0.001, 1e9) | st.integers(1, 10**9)},
    )
)
def test_synthetic_workloads_survive(synthetic: dict[str, Any]) -> None:
    lengths = {"min": 1, "max": 9}
    workload = {"synthetic": {**synthetic, "prompt_tokens": lengths, "output_tokens": lengths}}
    scenario = scenario_from({"name": "x", "workload": workload})
    assert parse_scenario(dump_scenario(scenario)) == scenario
