"""The JSON Schema of scenario files: editors use it for completion, allowed values and descriptions.

    # yaml-language-server: $schema=../docs/scenario.schema.json

A test compares docs/scenario.schema.json with this module. The command that writes the file:

    python -m dpsim.scenario.schema > docs/scenario.schema.json

`dpsim schema --module my_protocols` prints the schema with the parameters of the programs in that module.

The schema uses draft 07, the newest draft that all YAML language servers support. It only helps while typing: it checks
neither registered names nor rules that span several fields. Every file that `dump_scenario` writes is valid. Null is
allowed where it is the default, because a key without a value means null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import models_json_schema

from dpsim.contract.registry import ProtocolEntry
from dpsim.contract.words import BadInput
from dpsim.scenario.descriptions import described
from dpsim.scenario.duration import PATTERN, format_duration
from dpsim.scenario.kinds import default_type, scenario_type
from dpsim.scenario.model import Scenario

DRAFT = "http://json-schema.org/draft-07/schema#"
ID = "urn:dpsim:scenario:1"
"""The identifier of the schema, for the cache of an editor. It is no address, and no editor downloads it."""

TEMPLATE = "#/definitions/{model}"


def schema(protocols: Iterable[ProtocolEntry] = ()) -> dict[str, Any]:
    """For programs without `Params`, and those of `protocols` that have them.

    Without a program whose `Params` are invalid or have no schema: its scenarios show the error.
    """
    named = {}
    for entry in (one for one in protocols if one.program.Params is not None):
        with suppress(BadInput, PydanticUserError):
            kind = scenario_type(entry.name)
            kind.model_json_schema()
            named[entry.name] = kind
    if named:
        return {"$schema": DRAFT, **_by_protocol(named)}
    made = default_type().model_json_schema(by_alias=True, ref_template=TEMPLATE)
    definitions = made.pop("$defs")
    _shorten([*definitions.values(), made])
    _describe(definitions)
    _short_protocol(made, definitions)
    return {"$schema": DRAFT, "$id": ID, **made, "title": "dpsim scenario", "definitions": definitions}


def _by_protocol(named: Mapping[str, type[Scenario]]) -> dict[str, Any]:
    kinds = dict.fromkeys([default_type(), *named.values()])
    found, every = models_json_schema([(kind, "validation") for kind in kinds], ref_template=TEMPLATE)
    definitions = every["$defs"]
    references = {kind: found[kind, "validation"] for kind in kinds}
    _shorten(definitions.values())
    _describe(definitions)
    for reference in references.values():
        _short_protocol(definitions[_name(reference)], definitions)
    made: dict[str, Any] = references[default_type()]
    for name in reversed(list(named)):
        chosen = {"type": "object", "properties": {"name": {"const": name}}, "required": ["name"]}
        asked = {"properties": {"protocol": {"anyOf": [{"const": name}, chosen]}}, "required": ["protocol"]}
        made = {"if": asked, "then": references[named[name]], "else": made}
    for definition in definitions.values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    _of_draft_07(definitions)
    return {"$id": ID, **made, "title": "dpsim scenario", "definitions": definitions}


def _of_draft_07(node: Any) -> None:
    """Draft 07 names pydantic's `prefixItems`, a schema for each position of a list, `items`."""
    if isinstance(node, dict) and isinstance(node.get("prefixItems"), list):
        node["items"] = node.pop("prefixItems")
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _of_draft_07(inner)


def _name(reference: Mapping[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def schema_text(protocols: Iterable[ProtocolEntry] = ()) -> str:
    """Returns the schema as text: indented JSON with a newline at its end."""
    return json.dumps(schema(protocols), indent=2, ensure_ascii=False) + "\n"


def _describe(definitions: Mapping[str, dict[str, Any]]) -> None:
    kinds = {kind.__name__: kind for kind in _derived(BaseModel)}
    for name, definition in definitions.items():
        kind = kinds.get(name)
        if kind is None or "properties" not in definition:
            continue
        aliases = {field: info.alias or field for field, info in kind.model_fields.items()}
        for field, text in described(kind).items():
            one = definition["properties"].get(aliases.get(field, field), {"$ref": ""})
            if "$ref" not in one:
                one.setdefault("description", text)


def _derived(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in kind.__subclasses__():
        yield one
        yield from _derived(one)


def _short_protocol(scenario: dict[str, Any], definitions: dict[str, Any]) -> None:
    reference = scenario["properties"]["protocol"]
    choice = reference if "$ref" in reference else {"$ref": TEMPLATE.format(model="ProtocolChoice")}
    form = definitions[_name(choice)]["properties"]["form"]
    form["anyOf"].append({"type": "number"})  # the reader takes the source text of `form: 0.14`
    scenario["properties"]["protocol"] = {
        "description": "Which protocol, in which form, with what changed: a name, or a mapping.",
        "anyOf": [{"type": "string"}, {"$ref": choice["$ref"]}],
    }


def _shorten(definitions: Iterable[dict[str, Any]]) -> None:
    for field in [field for one in definitions for field in one.get("properties", {}).values()]:
        field.pop("title", None)
        if field.get("pattern") == PATTERN and "default" in field:
            field["default"] = format_duration(field["default"])
        if isinstance(field.get("default"), (dict, list)) or field.get("default", "") in (None, ""):
            field.pop("default", None)


if __name__ == "__main__":
    sys.stdout.write(schema_text())
