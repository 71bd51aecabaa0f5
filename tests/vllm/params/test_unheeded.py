"""Tests that vLLM's programs refuse fields that they do not read, and variants that replace nothing in the program."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract import registry
from dpsim.contract.program import Unsuitable
from dpsim.contract.registry import prepared
from dpsim.scenario import ScenarioError, scenario_from, to_world

PLAIN: dict[str, Any] = {"prompt_tokens": 1, "output_tokens": 4}
STAGES = {"pipeline_parallel_size": 2}


@pytest.mark.parametrize(
    ("name", "topology", "request_of", "field"),
    [
        ("engine", {}, {"session": "a"}, "session"),
        ("engine", {}, {"drafts": [1]}, "drafts"),
        ("whole_engine", STAGES, {"session": "a"}, "session"),
        ("whole_engine_dp", {}, {"structured_output": True}, "structured_output"),
        ("dbo", {}, {"session": "a"}, "session"),
        ("startup", {}, {"abort": "1s"}, "abort"),
    ],
)
def test_a_field_of_requests_that_a_program_does_not_read_is_refused(
    name: str, topology: dict[str, int], request_of: dict[str, Any], field: str
) -> None:
    """A program refuses a field of requests that it does not read.

    Else it would run another workload than the user wrote.
    """

    def args(more: dict[str, Any]) -> Any:
        document = {"name": "n", "protocol": name, "topology": {"data_parallel_size": 2, **topology}}
        scenario = scenario_from({**document, "workload": {"requests": [PLAIN, PLAIN | more]}})
        return scenario.arguments()

    with pytest.raises(Unsuitable, match=f"^workload: request 1 has {field}, which {name} does not use; remove it"):
        prepared(name, args(request_of))
    prepared(name, args({}))


@pytest.mark.parametrize("where", ["config", "config_by_rank"])
def test_a_switch_that_a_program_does_not_read_is_refused(where: str) -> None:
    switch: Any = {"enable_expert_parallel": True, "enable_eplb": True}
    given = {where: switch if where == "config" else {1: switch}}
    document = {"name": "n", "protocol": "engine", "topology": {"data_parallel_size": 2}}
    scenario = scenario_from({**document, **given, "workload": {"requests": [PLAIN]}})
    with pytest.raises(Unsuitable, match=f"^{where}.*enable_eplb: engine does not use it; remove it"):
        prepared("engine", scenario.arguments())


class Something:
    """A class that is neither a program nor part of one; the test registers it as a variant."""


@pytest.mark.parametrize("name", ["dp_batch", "pp_tokens"])
def test_shipped_protocols_refuse_what_replaces_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(registry, "_variants", {**registry._variants})
    registry.register_variant("JUNK", protocol=name, expected="HANG")(Something)
    scenario = scenario_from(
        {
            "name": "x",
            "protocol": {"name": name, "variant": "JUNK"},
            "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]},
        }
    )
    with pytest.raises(ScenarioError, match=f"x: the variant JUNK is Something, which replaces nothing in {name}"):
        to_world.prepare(scenario)


def test_a_program_without_parameters_has_those_of_vllm() -> None:
    document = {"name": "x", "protocol": "conformance", "workload": {"requests": [PLAIN]}}
    assert scenario_from(document).protocol.params is None
