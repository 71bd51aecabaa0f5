"""JSON Schema of scenario files, for editors: completion, allowed values and descriptions while typing.

    # yaml-language-server: $schema=../docs/scenario.schema.json

The file docs/scenario.schema.json is this text; a test holds it fresh. It is written anew by

    python -m dpsim.scenario.schema > docs/scenario.schema.json

It is draft 07, the newest draft that all YAML language servers know. The schema is a help, not the judge: it knows
neither registered names nor rules that span several fields. Every file that `dump_scenario` writes satisfies it. Null
is allowed where it is the default: it is what a key without a value says.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from dpsim.scenario.duration import PATTERN, format_duration
from dpsim.scenario.model import scenario_type

DRAFT = "http://json-schema.org/draft-07/schema#"


def schema() -> dict[str, Any]:
    """The schema as a mapping."""
    made = scenario_type().model_json_schema(by_alias=True, ref_template="#/definitions/{model}")
    definitions = made.pop("$defs")
    for definition in definitions.values():
        for field in definition.get("properties", {}).values():
            _shorten(field)
    properties = made["properties"]
    for field in properties.values():
        _shorten(field)
    form = definitions["ProtocolChoice"]["properties"]["form"]
    form["anyOf"].append({"type": "number"})  # form: 0.14 is read as it is written
    properties["protocol"] = {
        "description": "Which protocol, in which form, with what changed: a name, or a mapping.",
        "anyOf": [{"type": "string"}, {"$ref": "#/definitions/ProtocolChoice"}],
    }
    made["title"] = "dpsim scenario"
    return {"$schema": DRAFT, **made, "definitions": definitions}


def schema_text() -> str:
    """The schema as it is committed: indented JSON that ends in a newline."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _shorten(field: dict[str, Any]) -> None:
    """Take away titles that repeat the key, and defaults that say little."""
    field.pop("title", None)
    if field.get("pattern") == PATTERN and "default" in field:
        field["default"] = format_duration(field["default"])
    if isinstance(field.get("default"), (dict, list)) or field.get("default", "") in (None, ""):
        field.pop("default", None)


if __name__ == "__main__":
    sys.stdout.write(schema_text())
