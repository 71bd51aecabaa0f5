"""Generates docs/scenario-keys.md: each key of a scenario file, from the JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.scenario.schema import schema
from tests.vllm.reference.tables import code, table

OPENING = """\
# Keys of scenario files

This page lists every key that a scenario file may contain. A bold key is required. [Scenario files](scenarios.md)
explains the most important keys with examples. `python -m tests.vllm.reference` writes this page from the JSON Schema
that `dpsim schema` prints.
"""

SAME = {"PartialConfig": "EngineConfig"}
"""A section whose keys are those of another section; a file may give any of them."""


def page() -> str:
    """Returns the text of docs/scenario-keys.md."""
    found = schema()
    definitions = found["definitions"]
    parts = [OPENING, "## The file", "", keys(found, definitions), ""]
    for name, rule in definitions.items():
        if name in SAME:
            parts += [heading(name, rule), f"The keys are those of [{SAME[name]}](#{SAME[name].lower()}).", ""]
        elif "properties" in rule:
            parts += [heading(name, rule), used_in(name, found), keys(rule, definitions), ""]
        elif "enum" in rule:
            parts += [heading(name, rule), f"One of {', '.join(code(one) for one in rule['enum'])}.", ""]
    return "\n".join(parts)


def used_in(name: str, found: Mapping[str, Any]) -> str:
    """Returns a sentence with the keys whose value is this section, or ""."""
    objects = {"": found, **{f"{one}.": rule for one, rule in found["definitions"].items() if one not in SAME}}
    users = [
        code(f"{at}{key}")
        for at, rule in objects.items()
        for key, value in rule.get("properties", {}).items()
        if f"#/definitions/{name}'" in str(value)
    ]
    return f"Value of {', '.join(users)}.\n" if users else ""


def heading(name: str, rule: Mapping[str, Any]) -> str:
    return "\n".join([f"## {name}", "", " ".join(rule.get("description", "").split()), ""])


def keys(rule: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Returns the table of the keys of an object. A key without a description gets that of its section."""
    required = rule.get("required", ())
    rows = (
        (f"**{code(key)}**" if key in required else code(key), values(one), default(one), meaning(one, definitions))
        for key, one in rule["properties"].items()
    )
    return table(["key", "value", "default", "meaning"], rows)


def meaning(rule: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    section = definitions.get(rule.get("$ref", "").rpartition("/")[2], {})
    return str(rule.get("description", section.get("description", "")))


def default(rule: Mapping[str, Any]) -> str:
    value = rule.get("default")
    return "" if value is None or value == {} else code(str(value).lower() if isinstance(value, bool) else value)


def values(rule: Mapping[str, Any]) -> str:
    """Returns the values of a key in words, with a link to the section that lists its keys.

    >>> values({"type": "integer", "minimum": 1}), values({"type": "array", "items": {"$ref": "#/definitions/Skip"}})
    ('integer, at least 1', 'list of [Skip](#skip)')
    """
    if "$ref" in rule:
        name = rule["$ref"].rpartition("/")[2]
        return "any" if name == "JsonValue" else f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in rule:
            return " or ".join(dict.fromkeys(values(one) for one in rule[several]))
    if len(rule.get("allOf", ())) == 1:
        return values(rule["allOf"][0])
    if "const" in rule or "enum" in rule:
        return ", ".join(code(one) for one in rule.get("enum", [rule.get("const")]))
    kind = rule.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {values(rule.get('items', {}))}"
    if kind == "object" and isinstance(rule.get("additionalProperties"), dict):
        return f"mapping to {values(rule['additionalProperties'])}"
    return ", ".join([kind, *bounds(rule)])


BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
}


def bounds(rule: Mapping[str, Any]) -> list[str]:
    return [f"{words} {rule[key]:,}" for key, words in BOUNDS.items() if key in rule]
