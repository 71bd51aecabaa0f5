"""docs/json.md: the keys of each object that `--json` prints."""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.cli.json_alone import SCHEMA_VERSION
from dpsim.cli.json_fields.field import JsonField
from dpsim.cli.json_fields.objects import OBJECTS
from dpsim.vllm.answers.json_fields import CHECK_ENGINE
from tests.vllm.reference.tables import code, table

OPENING = f"""\
# JSON of each command

`python -m tests.vllm.reference` writes this page from the fields, and a test compares them with the objects of
commands. `--json` prints one object on stdout. Each object has a `schema_version`, now {SCHEMA_VERSION}.
A key that changes its meaning raises it. A new key does not, so a reader ignores keys that it does not know.

`findings[].class` is the key `class` of each object in the list `findings`. `figures.*` stands for any key of
`figures`. A key is always there, with null if there is nothing, unless its value says "may be absent". Times are in
nanoseconds.
"""

ALL: dict[str, tuple[JsonField, ...]] = {
    **OBJECTS,
    "dpsim check-engine": tuple(JsonField(*one) for one in CHECK_ENGINE),
}
"""By command, those of other packages as well."""


def page() -> str:
    """docs/json.md."""
    return "\n".join([OPENING, *(section(title, fields) for title, fields in ALL.items())])


def section(title: str, fields: Iterable[JsonField]) -> str:
    heading = title[0].upper() + title[1:] if not title.startswith("dpsim") else title
    rows = ((code(field.key), field.value, field.meaning) for field in fields)
    return f"## {heading}\n\n{table(['key', 'value', 'meaning'], rows)}\n"
