"""Generates docs/json.md: the keys of each object that `--json` prints."""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.cli.json_alone import SCHEMA_VERSION
from tests.vllm.reference.json_fields.check_engine import CHECK_ENGINE
from tests.vllm.reference.json_fields.field import JsonField
from tests.vllm.reference.json_fields.objects import OBJECTS
from tests.vllm.reference.tables import code, table

OPENING = f"""\
# JSON of each command

With `--json`, a dpsim command prints one JSON object on stdout. This page lists the keys of each command's object.
`python -m tests.vllm.reference` writes it from the code, and a test compares it with the output of the commands.

* Each object has a key `schema_version`, now {SCHEMA_VERSION}. If a key changes its meaning, the version increases.
  If dpsim adds a key, the version remains the same, so your program should ignore keys that it does not expect.
* `findings[].class` is the key `class` of each object in the list `findings`, and `figures.*` is any key of `figures`.
* Every object contains all its keys, with null if there is no value, except those marked "may be absent".
* Times are in nanoseconds.
"""

ALL: dict[str, tuple[JsonField, ...]] = {
    **OBJECTS,
    "dpsim check-engine": tuple(JsonField(*one) for one in CHECK_ENGINE),
}
"""The fields of each object by command, including the commands of other packages."""


def page() -> str:
    """Returns the text of docs/json.md."""
    return "\n".join([OPENING, *(section(title, fields) for title, fields in ALL.items())])


def section(title: str, fields: Iterable[JsonField]) -> str:
    heading = title[0].upper() + title[1:] if not title.startswith("dpsim") else title
    rows = ((code(field.key), field.value, field.meaning) for field in fields)
    return f"## {heading}\n\n{table(['key', 'value', 'meaning'], rows)}\n"
