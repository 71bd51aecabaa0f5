"""Reads JSON that may come from a stranger, and refuses texts that could take down the reader.

    loads_once(b'{"a":1,"a":2}')        # ValueError: the key 'a' occurs twice

Python's own reader accepts numbers of any length, lists nested as deep as its stack, and the last of two equal keys.
Its result may take thirty times the memory of the text. A recursive function that visits a deeply nested value fails.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST = 60
"""The deepest nesting of lists and objects. A scenario has up to 50."""

DIGITS = 300
"""The most digits of a number: no float has more. Numbers of records have up to 20, and a decision may have any number.
"""

_LONG = re.compile(rb"[0-9]{%d}" % (DIGITS + 1))
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

_CUT_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*\\?|u[0-9a-fA-F]{0,4}|-|\.|[eE][+-]?'
    r"|tr?u?|fa?l?s?|nu?l?|Na?|-?I(?:n(?:f(?:i(?:n(?:it?)?)?)?)?)?",
    re.DOTALL,
)
"""Matches the beginning of a text, an escape, a number or a literal."""

MOST_VALUES = 250_000
"""The most values of a header or section: as many as the largest scenario has, with its defaults. Times have more."""


def loads(text: bytes) -> Any:
    """Returns the value of a JSON text. Raises ValueError for no JSON, a too long number, or too deep nesting."""
    may_be_long = len(text) > DIGITS and _LONG.search(text)  # the digits of a text are no number
    try:
        value = json.loads(text, parse_int=_short if may_be_long else None)
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} deep") from None
    if text.count(b"[") + text.count(b"{") > DEEPEST:
        refuse_deep(value)
    return value


def loads_once(text: bytes, most: int = MOST_VALUES) -> Any:
    """As `loads`. Also raises ValueError for a repeated key of an object, and for more than `most` values."""
    if text.count(b",") > most and _TEXT.sub(b"", text).count(b",") > most:
        raise ValueError(f"more than {most:,} values")
    loads(text)
    return json.loads(text, object_pairs_hook=_once)


def ends_early(error: ValueError) -> bool:
    """Returns whether `loads` raised this error because the text is only the beginning of a JSON text.

    >>> try:
    ...     loads(b'{"a": [1, tr')
    ... except ValueError as error:
    ...     ends_early(error)
    True
    """
    if isinstance(error, UnicodeDecodeError):
        return error.reason == "unexpected end of data"
    if not isinstance(error, json.JSONDecodeError) or error.msg == "Extra data":
        return False
    rest = error.doc[error.pos :].lstrip()
    return not rest or _CUT_TOKEN.fullmatch(rest) is not None


def refuse_deep(value: Any) -> None:
    """Raises ValueError if lists and objects are nested deeper than a trace allows."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level if isinstance(one, list | tuple | dict) for inner in _inside(one)]
        if not level:
            return
    raise ValueError(f"nested more than {DEEPEST} deep")


def refuse_long(number: int) -> None:
    """Raises ValueError for a number that is longer than a trace allows."""
    if abs(number) >= 10**DIGITS:
        raise ValueError(f"a number of more than {DIGITS} digits")


def _short(digits: str) -> int:
    """Returns the number of its digits, without reading those of a long one: Python needs seconds for a million."""
    if len(digits.removeprefix("-")) > DIGITS:
        raise ValueError(f"a number of more than {DIGITS} digits")
    return int(digits)


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:40]!r} occurs twice")
    return made
