"""The place of an error in parameters, as the user wrote it: without what pydantic adds for a union.

Of `slots: int | str` and the value [1] pydantic says two things, at ("slots", "int") and at ("slots", "str"). Neither
word is a key of the file. Both errors are of one mistake, so they become one, at ("slots",).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dpsim.scenario.base import ALL_TAG, EACH_TAG, KeyPath

OF_A_KEY = "[key]"
ABOUT_A_KEY = ("missing", "extra_forbidden")
"""Errors whose place ends in a key."""


def at_their_places(error: ValidationError, value: Any, more: list[InitErrorDetails]) -> ValidationError:
    """The same error, with a place in `value`, which was read, for each line; and further lines."""
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        about_key = detail["type"] in ABOUT_A_KEY
        inner, last = (detail["loc"][:-1], detail["loc"][-1:]) if about_key else (detail["loc"], ())
        found.setdefault((*_place(inner, value), *last), []).append(detail)
    return ValidationError.from_exception_data(
        error.title, [*(_line(path, same) for path, same in found.items()), *more]
    )


def _place(loc: tuple[int | str, ...], value: Any) -> KeyPath:
    """The parts of a place that are keys or numbers of the value, and the marks that the reader of a file drops."""
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
    """One line for all errors of a place; a single error keeps its kind, for which there are words."""
    first = same[0]
    kinds = list(dict.fromkeys(one["msg"] for one in same))
    if len(kinds) > 1:
        text = " or: ".join(kinds)
        return InitErrorDetails(
            type=PydanticCustomError("union", "{text}", {"text": text}), loc=path, input=first["input"]
        )
    try:
        return _checked(InitErrorDetails(type=first["type"], loc=path, input=first["input"], ctx=first.get("ctx", {})))
    except (KeyError, TypeError):  # an error of a user's own
        own = PydanticCustomError(first["type"], "{text}", {"text": first["msg"]})
        return InitErrorDetails(type=own, loc=path, input=first["input"])


def _checked(line: InitErrorDetails) -> InitErrorDetails:
    ValidationError.from_exception_data("", [line])
    return line
