"""Compares rows and JSON objects, and words the differences.

of_rows(before, after)         # ["m-dp-1  class: HANG:JOIN -> HANG:COLLECTIVE:MISSING_RANK", ...]
of_objects(before, after)      # ["findings.0.check: ledger -> deadlock", ...]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.snapshot.row import Row, plain

NOTHING = "(nothing)"
LONGEST = 200


def of_rows(before: Mapping[str, Row], after: Mapping[str, Row], words: bool = False) -> Iterator[tuple[str, str]]:
    """Yields each difference of two sets of rows: the row's name, and field, value before and value after.

    `words`: compares the digests of sentences, too.
    """
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            yield name, "row: " + ("stored -> missing" if name in before else "missing -> computed")
            continue
        old, new = before[name], after[name]
        for field in dict.fromkeys([*old, *new]):
            if old.get(field) != new.get(field) and (words or field != "words"):
                yield name, f"{field}: {old.get(field, NOTHING)} -> {new.get(field, NOTHING)}"


def of_objects(before: Any, after: Any) -> Iterator[str]:
    """Yields each difference of two JSON objects, without line numbers and times: path, value before, value after."""
    yield from _differing(plain(before), plain(after), "")


def _differing(before: Any, after: Any, path: str) -> Iterator[str]:
    old, new = _inner(before), _inner(after)
    if old is None or new is None or type(before) is not type(after):
        if before != after:
            yield f"{path or 'all'}: {_short(before)} -> {_short(after)}"
        return
    for key in dict.fromkeys([*old, *new]):
        if key in old and key in new:
            yield from _differing(old[key], new[key], f"{path}.{key}" if path else key)
        else:
            there = _short((old if key in old else new)[key])
            yield f"{path}.{key}: " + (f"{there} -> {NOTHING}" if key in old else f"{NOTHING} -> {there}")


def _inner(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return value
    return {str(number): inner for number, inner in enumerate(value)} if isinstance(value, list) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
