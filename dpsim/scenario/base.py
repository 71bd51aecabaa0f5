"""The base class of all sections of a scenario, and `refuse`, which raises an error for broken rules with their places.

A rule may span several fields. The validator of the model that has them all passes a `Problem` for each violation to
`refuse`. The YAML reader turns each path into a line.

    refuse(Problem(("faults", 0, "rank"), "rank 7: the world has 4 ranks, 0 to 3"))

Scalars are strict in Python as in YAML: `True` is no rank, and "5" is no number of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, GetJsonSchemaHandler, Tag
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError

from dpsim.scenario.descriptions import described
from dpsim.scenario.errors import path_text

MAX_RANKS = 4096
"""The largest world. A larger number of ranks is probably a typing error."""

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the top of a scenario, or of a section, down to a value."""


class StrictModel(BaseModel):
    """The base class of a section: frozen, and it forbids unknown keys. Docstrings below the fields describe them. Its
    repr shows only the fields that differ from their defaults.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        made = handler(core_schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for name, text in described(cls).items():
            field = cls.model_fields.get(name)
            if field is not None and field.description is None:
                properties[field.alias if field.alias in properties else name]["description"] = text
        return made

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        fields = type(self).model_fields.items()
        defaults = {name: field.get_default(call_default_factory=True) for name, field in fields}
        return (one for one in super().__repr_args__() if one[0] not in defaults or one[1] != defaults[one[0]])


class Problem(NamedTuple):
    """A broken rule: the path of the wrong value, and a message."""

    path: KeyPath
    message: str


def refuse(*problems: Problem) -> None:
    """Raises one pydantic error with all `problems`, if there are any. Only validators call it."""
    if problems:
        text = "; ".join(f"{path_text(path)}: {message}" if path else message for path, message in problems)
        raise PydanticCustomError(RULE, "{text}", {"text": text, "problems": problems})


RULE = "scenario_rule"
"""The type of the pydantic error that `refuse` raises. Its context has the key `problems`."""

Flag = Annotated[bool, Field(strict=True)]
Index = Annotated[int, Field(ge=0, le=10**9, strict=True)]
"""A step, an ordinal or a sequence number, from 0."""

RankNumber = Annotated[int, Field(ge=0, lt=MAX_RANKS, strict=True)]
"""A global rank. The scenario checks that the world has it."""


def _decimal(key: Any) -> Any:
    """A rank that is a key in JSON is text. One spelling only, because 1 and 01 would be two keys for one rank."""
    if isinstance(key, str):
        if not re.fullmatch(r"-?(0|[1-9][0-9]*)", key):
            raise PydanticKnownError("int_parsing")
        return int(key) if len(key) < 19 else key
    return key


RankKey = Annotated[RankNumber, BeforeValidator(_decimal)]
"""A global rank as the key of a mapping: a decimal number without leading zeros."""

ServiceName = Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[a-z][!-~]*$")]
"""The name of a service of the program, such as engine.1. `misnamed` checks that the program has this service."""

RANK_TAG, SERVICE_TAG = "(rank)", "(service)"
"""Tags in the place of a pydantic error: whether the value is a rank or a service. They are no keys of a file."""

ALL_TAG, EACH_TAG = "(all)", "(each)"
"""Tags in the place of a pydantic error: one value for all ranks, or values of single ranks. They are no keys of a
file.
"""

OF_A_KEY = "[key]"
"""What pydantic adds to the place of an invalid key, such as a rank that is no number."""


def _named(value: object) -> str:
    return SERVICE_TAG if isinstance(value, str) else RANK_TAG


Actor: TypeAlias = Annotated[
    Annotated[RankNumber, Tag(RANK_TAG)] | Annotated[ServiceName, Tag(SERVICE_TAG)], Discriminator(_named)
]
"""A rank, by its number, or a service, by its name."""

Word = Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[!-~]+$")]
"""The name of a site, a communicator, a protocol or an adapter: printable ASCII without spaces."""
