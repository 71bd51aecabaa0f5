"""Tests the JSON Schema of scenarios: the file in docs is fresh, and all scenarios satisfy it."""

from __future__ import annotations

import json
import re
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given

from dpsim.scenario import Scenario, dump_scenario, scenario_from
from dpsim.scenario.schema import DRAFT, schema, schema_text
from dpsim.testing import scenarios
from dpsim.vllm.config import PartialConfig
from dpsim.vllm.params.scenario import EngineScenario
from tests import ROOT

FILE = ROOT / "docs" / "scenario.schema.json"
SCHEMA = schema()
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}
BOUNDS = {"minimum": ge, "maximum": le, "exclusiveMinimum": gt, "exclusiveMaximum": lt}
SIZES = {
    f"{side}{what}": (kind, holds)
    for side, holds in (("min", ge), ("max", le))
    for what, kind in (("Length", "string"), ("Items", "array"), ("Properties", "object"))
}


def satisfies(value: Any, rule: dict[str, Any] | Literal[True]) -> bool:
    """Returns whether a value satisfies a schema. Implements the part of draft 07 that dpsim's schema uses."""
    if rule is True:
        return True
    if "$ref" in rule:
        return satisfies(value, SCHEMA["definitions"][rule["$ref"].rpartition("/")[2]])
    return all(_keyword(value, keyword, argument, rule) for keyword, argument in rule.items())


def _keyword(value: Any, keyword: str, argument: Any, rule: dict[str, Any]) -> bool:
    if keyword in BOUNDS:
        return not _is(value, "number") or bool(BOUNDS[keyword](value, argument))
    if keyword in SIZES:
        kind, holds = SIZES[keyword]
        return not _is(value, kind) or bool(holds(len(value), argument))
    match keyword:
        case "type":
            return any(_is(value, name) for name in ([argument] if isinstance(argument, str) else argument))
        case "properties":
            return not isinstance(value, dict) or all(satisfies(value[k], r) for k, r in argument.items() if k in value)
        case "additionalProperties":
            others = set(value) - set(rule.get("properties", ())) if isinstance(value, dict) else ()
            return all(satisfies(value[key], argument) for key in others) if argument is not False else not others
        case "patternProperties":
            keys = value if isinstance(value, dict) else ()
            return all(satisfies(value[k], r) for pattern, r in argument.items() for k in keys if re.search(pattern, k))
        case "propertyNames":
            return not isinstance(value, dict) or all(satisfies(key, argument) for key in value)
        case "required":
            return not isinstance(value, dict) or set(argument) <= set(value)
        case "items":
            return not isinstance(value, list) or all(satisfies(item, argument) for item in value)
        case "anyOf":
            return any(satisfies(value, choice) for choice in argument)
        case "oneOf":
            return sum(satisfies(value, choice) for choice in argument) == 1
        case "enum":
            return value in argument
        case "const":
            return bool(value == argument)
        case "pattern":
            return not isinstance(value, str) or re.search(argument, value) is not None
    assert keyword in {
        "title",
        "description",
        "default",
        "examples",
        "discriminator",
        "definitions",
        "$schema",
        "$id",
    }, keyword
    return True


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def test_committed_file_is_fresh() -> None:
    assert FILE.read_text() == schema_text(), (
        "write it anew: python -m dpsim.scenario.schema > docs/scenario.schema.json"
    )


def test_the_schema_is_draft_07_and_describes_its_keys() -> None:
    text = schema_text()
    assert json.loads(text)["$schema"] == DRAFT
    assert "$defs" not in text
    assert set(SCHEMA["properties"]) == set(EngineScenario.model_fields)
    assert SCHEMA["definitions"]["Expect"]["properties"]["class"]["anyOf"][0]["type"] == "string"
    assert SCHEMA["definitions"]["RequestSpec"]["properties"]["arrival"]["default"] == "0s"


@pytest.mark.slow
@given(scenarios())
def test_written_scenarios_satisfy_it(scenario: Scenario) -> None:
    assert satisfies(yaml.safe_load(dump_scenario(scenario)), SCHEMA)


WORK = {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}


@pytest.mark.parametrize(("explored", "allowed"), [("proven", True), ({"verdict": "proven"}, True), ("prove", False)])
def test_a_bare_word_says_what_exploring_shows(explored: Any, allowed: bool) -> None:
    assert satisfies({"name": "x", "workload": WORK, "expect": {"explored": explored}}, SCHEMA) is allowed


def test_a_rank_may_take_back_any_setting_that_can_be_unset() -> None:
    """A rank may set null, the default, for each optional setting that the configuration of all ranks sets."""
    unset = {field.alias or name: None for name, field in PartialConfig.model_fields.items() if field.default is None}
    assert "disable_nccl_for_dp_synchronization" in unset
    scenario = scenario_from({"name": "x", "workload": WORK, "config_by_rank": {0: unset}})
    written = yaml.safe_load(dump_scenario(scenario))
    assert written["config_by_rank"] == {0: unset}
    assert satisfies(written, SCHEMA)


@pytest.mark.parametrize(
    "section", [("config",), ("config", "eplb_config"), ("limits",), ("protocol",), ("expect",)], ids=".".join
)
def test_null_is_allowed_where_it_is_the_default(section: tuple[str, ...]) -> None:
    """In each section, schema and model accept null for keys whose default is null, and the schema refuses it for
    others.
    """
    model: Any = EngineScenario
    for key in section:
        model = type(model.model_fields[key].get_default(call_default_factory=True))
    wrong = []
    for name, field in model.model_fields.items():
        nested: Any = {field.alias or name: None}
        for key in reversed(section):
            nested = {key: nested}
        data = {"name": "x", "workload": WORK, **nested}
        unset = field.default is None
        assert satisfies(data, SCHEMA) == unset, name
        wrong += [name] * (not unset)
        if unset:
            scenario_from(data)
    assert wrong or section == ("expect",)


@pytest.mark.parametrize("file", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda file: file.stem)
def test_scenario_files_satisfy_it_and_name_it(file: Path) -> None:
    assert satisfies(yaml.safe_load(file.read_text()), SCHEMA)
    first = file.read_text().split("\n")[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(.+)", first)
    assert match is not None, f"the first line is no modeline: {first}"
    assert (file.parent / match[1]).resolve() == FILE


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": "a b"},
        {"name": "x", "workload": {}},
        {"name": "x", "workload": {"limit": 1, "requests": [{"prompt_tokens": 1, "output_tokens": 0}]}},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}, "step_duration": 20}},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}}, "faults": [{"kind": "skip", "rank": 0}]},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}}, "config": {"cudagraph_mode": "full"}},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}}, "topology": {"data_parallel_size": "2"}},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}}, "expect": {"klass": "HANG"}},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}}, "config_by_rank": {0: {"max_num_seqs": 0}}},
        {"name": "x", "workload": {"azure_csv": {"file": "x"}}, "config_by_rank": {0: {"no_such_key": 1}}},
    ],
)
def test_the_schema_refuses_each_mistake(wrong: dict[str, Any]) -> None:
    assert not satisfies(wrong, SCHEMA)
