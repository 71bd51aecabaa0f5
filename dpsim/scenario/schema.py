"""JSON Schema of scenario files, for editors: completion, allowed values and descriptions while typing.

    # yaml-language-server: $schema=../docs/scenario.schema.json

The file docs/scenario.schema.json is this text; a test holds it fresh. It is written anew by

    python -m dpsim.scenario.schema > docs/scenario.schema.json

With `dpsim schema --module my_protocols` it knows the parameters of programs that have `Params`, too.

It is draft 07, the newest draft that all YAML language servers know. The schema is a help, not the judge: it knows
neither registered names nor rules that span several fields. Every file that `dump_scenario` writes satisfies it. Null
is allowed where it is the default: it is what a key without a value says.
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
"""Names the schema, as an editor's cache wants. It is no address: nothing is loaded from there."""

TEMPLATE = "#/definitions/{model}"


def schema(protocols: Iterable[ProtocolEntry] = ()) -> dict[str, Any]:
    """The schema as a mapping: that of programs without `Params`, and of those of `protocols` that have them. It leaves
    out a program whose `Params` cannot be used, or have no schema: a scenario of it shows the error.
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
    """A schema that asks for the protocol first."""
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
    """A list with a schema for each place is `items` there, and `prefixItems` in what pydantic writes."""
    if isinstance(node, dict) and isinstance(node.get("prefixItems"), list):
        node["items"] = node.pop("prefixItems")
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _of_draft_07(inner)


def _name(reference: Mapping[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def schema_text(protocols: Iterable[ProtocolEntry] = ()) -> str:
    """The schema as it is committed: indented JSON that ends in a newline."""
    return json.dumps(schema(protocols), indent=2, ensure_ascii=False) + "\n"


def _describe(definitions: Mapping[str, dict[str, Any]]) -> None:
    """Add the docstrings of fields of models that other packages bring."""
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
    """A name is short for the mapping, and a form may look like a number."""
    reference = scenario["properties"]["protocol"]
    choice = reference if "$ref" in reference else {"$ref": TEMPLATE.format(model="ProtocolChoice")}
    form = definitions[_name(choice)]["properties"]["form"]
    form["anyOf"].append({"type": "number"})  # form: 0.14 is read as it is written
    scenario["properties"]["protocol"] = {
        "description": "Which protocol, in which form, with what changed: a name, or a mapping.",
        "anyOf": [{"type": "string"}, {"$ref": choice["$ref"]}],
    }


def _shorten(definitions: Iterable[dict[str, Any]]) -> None:
    """Take away titles that repeat the key, and defaults that say little."""
    for field in [field for one in definitions for field in one.get("properties", {}).values()]:
        field.pop("title", None)
        if field.get("pattern") == PATTERN and "default" in field:
            field["default"] = format_duration(field["default"])
        if isinstance(field.get("default"), (dict, list)) or field.get("default", "") in (None, ""):
            field.pop("default", None)


if __name__ == "__main__":
    sys.stdout.write(schema_text())
