"""Removes the tags of a union from the place of a pydantic error, so that the place is a path in the user's file.

For `slots: int | str` and the value [1], pydantic reports two errors, at ("slots", "int") and at ("slots", "str"). Both
are about one value, and neither word is a key of the file. So this module joins them into one error, at ("slots",).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dpsim.scenario.base import ALL_TAG, EACH_TAG, KeyPath

OF_A_KEY = "[key]"
ABOUT_A_KEY = ("missing", "extra_forbidden")
"""Types of errors whose place ends with a key."""


def at_their_places(error: ValidationError, value: Any, more: list[InitErrorDetails]) -> ValidationError:
    """With a place in `value`, the input, for each line. `more`: further lines to add."""
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        about_key = detail["type"] in ABOUT_A_KEY
        inner, last = (detail["loc"][:-1], detail["loc"][-1:]) if about_key else (detail["loc"], ())
        found.setdefault((*_place(inner, value), *last), []).append(detail)
    return ValidationError.from_exception_data(
        error.title, [*(_line(path, same) for path, same in found.items()), *more]
    )


def _place(loc: tuple[int | str, ...], value: Any) -> KeyPath:
    """Returns the parts of `loc` that are keys or positions in `value`, and the tags that the YAML reader removes."""
    path: KeyPath = ()
    for part in loc:
        if part in (ALL_TAG, EACH_TAG, OF_A_KEY):
            path = (*path, part)
            continue
        named = {str(key): inner for key, inner in value.items()} if isinstance(value, Mapping) else {}
        if str(part) in named:
            path, value = (*path, part), named[str(part)]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
            path, value = (*path, part), value[part]
    return path


def _line(path: KeyPath, same: list[ErrorDetails]) -> InitErrorDetails:
    """A single error keeps its type, because `yaml.messages` knows the types."""
    first = same[0]
    kinds = list(dict.fromkeys(one["msg"] for one in same))
    if len(kinds) > 1:
        text = " or: ".join(kinds)
        return InitErrorDetails(
            type=PydanticCustomError("union", "{text}", {"text": text}), loc=path, input=first["input"]
        )
    try:
        return _checked(InitErrorDetails(type=first["type"], loc=path, input=first["input"], ctx=first.get("ctx", {})))
    except (KeyError, TypeError):  # an error type of the user
        own = PydanticCustomError(first["type"], "{text}", {"text": first["msg"]})
        return InitErrorDetails(type=own, loc=path, input=first["input"])


def _checked(line: InitErrorDetails) -> InitErrorDetails:
    ValidationError.from_exception_data("", [line])
    return line
