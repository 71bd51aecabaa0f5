"""What all parts of a scenario have in common: they are strict, frozen, and say exactly where a rule was broken.

A rule may span several fields, such as a fault on a rank that the world does not have. The validator of the part that
holds all these fields checks it, far from the line that is to blame. So such a validator collects `Problem`s, each with
the path of the guilty value, and hands them to `refuse`. The YAML reader finds the line of each path.

    refuse(Problem(("faults", 0, "rank"), "rank 7: the world has 4 ranks, 0 to 3"))

Scalars are strict in Python as in YAML: `True` is no rank, "5" is no number of tokens.
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
"""More ranks than a world may have are a slip of the keyboard."""

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the top of a scenario, or of a part, down to a value."""


class StrictModel(BaseModel):
    """A part of a scenario. Its fields are described by the docstrings below them; the repr is what differs from the
    defaults.
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
    """A broken rule: where, and in words."""

    path: KeyPath
    message: str


def refuse(*problems: Problem) -> None:
    """Raise one pydantic error that carries all `problems`, if there are any. For use in validators."""
    if problems:
        text = "; ".join(f"{path_text(path)}: {message}" if path else message for path, message in problems)
        raise PydanticCustomError(RULE, "{text}", {"text": text, "problems": problems})


RULE = "scenario_rule"
"""The pydantic error type of `refuse`; its context holds `problems`."""

Flag = Annotated[bool, Field(strict=True)]
Index = Annotated[int, Field(ge=0, le=10**9, strict=True)]
"""A step, an ordinal, a sequence number: from 0."""

RankNumber = Annotated[int, Field(ge=0, lt=MAX_RANKS, strict=True)]
"""A global rank; that the world has it is checked by the scenario."""


def _decimal(key: Any) -> Any:
    """A key of JSON is text; one spelling for each rank, or the later of 1 and 01 would replace the other."""
    if isinstance(key, str):
        if not re.fullmatch(r"-?(0|[1-9][0-9]*)", key):
            raise PydanticKnownError("int_parsing")
        return int(key) if len(key) < 19 else key
    return key


RankKey = Annotated[RankNumber, BeforeValidator(_decimal)]
"""A global rank that is the key of a mapping: in decimal, without leading zeros or a fraction."""

ServiceName = Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[a-z][!-~]*$")]
"""The name of a service of the program, as engine.1; that there is one is checked when the program is known."""

RANK_TAG, SERVICE_TAG = "(rank)", "(service)"
"""Not of a file: which of the two somebody named, in the place of an error."""

ALL_TAG, EACH_TAG = "(all)", "(each)"
"""Not of a file: whether a parameter has one value for all ranks or values of single ones, in the place of an error."""


def _named(value: object) -> str:
    return SERVICE_TAG if isinstance(value, str) else RANK_TAG


Actor: TypeAlias = Annotated[
    Annotated[RankNumber, Tag(RANK_TAG)] | Annotated[ServiceName, Tag(SERVICE_TAG)], Discriminator(_named)
]
"""An actor that runs a part of the program: a rank, or a service."""

Word = Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[!-~]+$")]
"""A name of a site, a communicator, a protocol, an adapter: printable ASCII without spaces."""
