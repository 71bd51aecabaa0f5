"""The base class of all parts of a configuration: pydantic models that are strict, immutable and limited.

The limits are dpsim's own: no engine has more ranks or tokens, so a larger number is a typing error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MAX_RANKS = 4096
MAX_TOKENS = 1 << 24

Size = Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True)]
"""A number of ranks."""
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[int, Field(strict=True)]
"""Any integer; a rule of the release limits it."""


class StrictModel(BaseModel):
    """A model that refuses unknown keys and is immutable. Its repr shows the fields that differ from their defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        defaults = {name: field.get_default() for name, field in type(self).model_fields.items()}
        return (one for one in super().__repr_args__() if one[0] not in defaults or one[1] != defaults[one[0]])
