"""Where values differ, for messages: a long value is never cut where it differs.

    contrasted("plan", [((0, 8), "FULL"), ((0, 4), "FULL")])    # ["plan = ((0, 8), 'FULL')", "plan = ((0, 4), 'FULL')"]
    contrasted("plan", [long, other])                           # ["plan[0][31] = 8", "plan[0][31] = 4"]

Short values appear whole. Of long ones a message has only the elements that differ, each with its path, and the number
of those that it leaves out. Tuples, lists, dicts, named tuples, dataclasses, sets, strings and arrays have elements. A
value of another type is its own only element.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dpsim.contract.words import counted, short

WHOLE = 120
"""Characters of a value that appears whole."""

SHOWN = 3
"""Elements that a message shows."""

MOST = 10_000
"""Elements that are compared: a failing run does not wait for more."""

DEPTH = 8
"""Levels of values within values that are compared."""

SIDES = ("left", "right")

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MISSING = object()


def contrasted(name: str, values: Sequence[Any], whole: int = WHOLE) -> list[str]:
    """A text for each value: the name with the value, or with the elements that differ if a value is long.

    >>> contrasted("x", [(0,) * 99, (0,) * 50 + (1,) + (0,) * 48])
    ['x[50] = 0', 'x[50] = 1']
    """
    if all(len(_text(value, whole + 1)) <= whole for value in values):
        return [f"{name} = {value}" for value in values]
    shown, more = _shown(values)
    return [", ".join(f"{name}{path} = {own[at]}" for path, own in shown) + more for at in range(len(values))]


def _shown(values: Sequence[Any]) -> tuple[list[tuple[str, list[str]]], str]:
    found = list(islice(_elements(values, "", DEPTH), MOST))
    left = len(found) - SHOWN
    return found[:SHOWN], f", and {counted(left, 'more element')} differ{'s' * (left == 1)}" if left > 0 else ""


def compared(op: str, left: Any, right: Any, least: int) -> list[str] | None:
    """A comparison that failed, as pytest prints it; None if both sides have at most `least` characters.

    >>> compared("==", (0,) * 99, (0,) * 50 + (1,) + (0,) * 48, 30)
    ['left == right, where left[50] = 0 and right[50] = 1']
    """
    sides = [_text(value, WHOLE) for value in (left, right)]
    longest = max(len(_text(value, WHOLE + 1)) for value in (left, right))
    if longest <= least:
        return None
    if op != "==":
        return [f"{sides[0]} {op} {sides[1]}"]
    head = f"{sides[0]} == {sides[1]}" if longest <= WHOLE else "left == right"
    found, more = _shown([left, right])
    own = [" and ".join(f"{name}{path} = {texts[at]}" for path, texts in found) for at, name in enumerate(SIDES)]
    return [f"{head}, where {own[0]} and {own[1]}{more}"]


def _elements(values: Sequence[Any], path: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    if all(_equal(values[0], value) for value in values[1:]):
        return
    inner = _inside(values) if depth and len({type(value) for value in values}) == 1 else []
    found = False
    for step, own in inner:
        for one in _elements(own, path + step, depth - 1):
            found = True
            yield one
    if not found:
        yield path, _leaves(values)


def _inside(values: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    first = values[0]
    if isinstance(first, dict):
        keys = sorted({key for value in values for key in value}, key=repr)
        return [(f"[{key!r}]", [value.get(key, _MISSING) for value in values]) for key in keys]
    if dataclasses.is_dataclass(first):
        names = [one.name for one in dataclasses.fields(first) if one.compare]
        return [(f".{name}", [getattr(value, name, _MISSING) for value in values]) for name in names]
    if hasattr(first, "tolist"):
        return [("", [value.tolist() for value in values])]
    if not isinstance(first, tuple | list):
        return []
    fields: tuple[str, ...] = getattr(first, "_fields", ())
    return [
        (
            f".{fields[at]}" if at < len(fields) else f"[{at}]",
            [value[at] if at < len(value) else _MISSING for value in values],
        )
        for at in range(max(map(len, values)))
    ]


def _leaves(values: Sequence[Any]) -> list[str]:
    if all(isinstance(value, str) for value in values):
        pairs = enumerate(zip(*values, strict=False))
        same = next((at for at, chars in pairs if len(set(chars)) > 1), min(map(len, values)))
        if same > 30:
            return [f"{short(value[same:], 40)!r} from character {same} on" for value in values]
    if all(isinstance(value, set | frozenset) for value in values):
        common = set.intersection(*map(set, values))
        return [f"{short(sorted(map(repr, set(value) - common)), 60)} and {len(common)} common" for value in values]
    return ["no element" if value is _MISSING else _text(value, 60) for value in values]


def _text(value: Any, limit: int) -> str:
    """A value in one line, without addresses of objects: a repeated run has others."""
    try:
        return short(_ADDRESS.sub("", " ".join(repr(value).split())), limit)
    except Exception as error:  # a repr of the program's own, which may raise anything
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one is other or one == other)
    except Exception:  # an array, or an `__eq__` of the program's own
        return False
