"""Tests that each key of a scenario has a description in the schema, which editors display."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsim.scenario.schema import ID, schema


def undescribed(made: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys without a description of at least three words. A key of a section has the section's
    description.
    """
    for name, definition in {"scenario": made, **made["definitions"]}.items():
        for key, value in definition.get("properties", {}).items():
            if "$ref" not in value and len(value.get("description", "").split()) < 3:
                yield f"{name}.{key}"


def test_each_key_is_described() -> None:
    made = schema()
    assert [*undescribed(made)] == []
    assert made["$id"] == ID


def test_a_key_without_a_description() -> None:
    """The faulty twin: a schema without one description, and with another of two words."""
    made = schema()
    del made["definitions"]["EngineConfig"]["properties"]["enable_dbo"]["description"]
    made["definitions"]["Topology"]["properties"]["tensor_parallel_size"]["description"] = "the size"
    assert {*undescribed(made)} >= {"EngineConfig.enable_dbo", "Topology.tensor_parallel_size"}
