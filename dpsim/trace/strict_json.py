"""JSON as a stranger may have written it: valid, and made to take the reader down.

    loads(b'{"a":1,"a":2}', "the header")       # ValueError: the key 'a' occurs twice

Python's reader takes numbers of any length, lists nested as deep as its stack, and the last of two equal keys. What it
makes may take thirty times the memory of the text. A function that goes through such values recursively fails.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST = 60
"""Lists and objects in one another. A scenario has up to 50."""

DIGITS = 300
"""Of a number: a float cannot hold a longer one. Those of records have up to 20, and a decision may be any."""

_LONG = re.compile(rb"[:,\[\s-][0-9]{%d}" % (DIGITS + 1))

MOST_VALUES = 250_000
"""Of one line outside the body: as many as the largest scenario has, with its defaults."""


def loads(text: bytes) -> Any:
    """A value of JSON. Raises ValueError for what is none, for a number that is too long, and for deep nesting."""
    if len(text) > DIGITS and _LONG.search(text):
        raise ValueError(f"a number of more than {DIGITS} digits")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} deep") from None
    if text.count(b"[") + text.count(b"{") > DEEPEST:
        refuse_deep(value)
    return value


def loads_once(text: bytes) -> Any:
    """The same; ValueError also for a key that occurs twice in an object, and for very many values."""
    if text.count(b",") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")
    loads(text)
    return json.loads(text, object_pairs_hook=_once)


def refuse_deep(value: Any) -> None:
    """Raise ValueError for lists and objects nested deeper than a trace may have them."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level if isinstance(one, list | tuple | dict) for inner in _inside(one)]
        if not level:
            return
    raise ValueError(f"nested more than {DEEPEST} deep")


def refuse_long(number: int) -> None:
    """Raise ValueError for a number that a trace may not have."""
    if abs(number) >= 10**DIGITS:
        raise ValueError(f"a number of more than {DIGITS} digits")


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:40]!r} occurs twice")
    return made
