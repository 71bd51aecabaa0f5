"""Durations: text with a unit in scenario files, integer nanoseconds in Python.

dpsim refuses a number without a unit, because it could mean milliseconds or seconds. (llm-d had such settings and
deprecated them.) It accepts a fraction only if the duration is a whole number of nanoseconds, so it never rounds.

    >>> parse_duration("1.5ms"), parse_duration("2m")
    (1500000, 120000000000)
    >>> format_duration(1_500_000), format_duration(100_000_000), format_duration(0)
    ('1.5ms', '100ms', '0s')

`format_duration` returns the shortest exact text, so `parse_duration(format_duration(ns)) == ns` for every `ns`. If a
smaller unit exists, it avoids a leading "0.".
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
"""The nanoseconds of each unit."""

MAX_NS = 400 * 24 * UNITS["h"]
"""The longest duration. A duration of more than a year probably has a wrong unit."""

PATTERN = r"^[0-9]{1,20}(\.[0-9]{1,20})?(ns|us|ms|s|m|h)$"

_WRITTEN = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([a-zA-Zµμ]+)")
_OTHER_NAMES = {"µs": "us", "μs": "us", "sec": "s", "secs": "s", "min": "m", "mins": "m", "msec": "ms", "usec": "us"}


def parse_duration(value: object, example: str = "20ms") -> int:
    """Returns the nanoseconds of a duration such as "20ms". Raises ValueError with the expected form and an example."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected a duration: a number and its unit, e.g. {example}")
    text = str(value).strip()
    if not isinstance(value, str) or _is_number(text):
        raise ValueError(
            f"the duration {text[:40]} has no unit; add a unit, e.g. {example} (units: {', '.join(UNITS)})"
        )
    if text.startswith("-"):
        raise ValueError(f"the duration {text[:40]!r} is negative; expected 0s or more")
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a duration; expected a number and its unit, e.g. {example}")
    number, unit = match.groups()
    if unit not in UNITS:
        meant = unit.lower() if unit.lower() in UNITS else _OTHER_NAMES.get(unit.lower())
        hint = f"; did you mean {number}{meant}?" if meant else ""
        known = ", ".join(UNITS)
        raise ValueError(f"unknown unit {unit[:20]!r} in the duration {text[:40]!r}; expected one of {known}{hint}")
    nanoseconds = Fraction(number) * UNITS[unit]
    if nanoseconds.denominator != 1:
        raise ValueError(f"the duration {text[:40]!r} is not a whole number of nanoseconds; expected no part below 1ns")
    if nanoseconds > MAX_NS:
        raise ValueError(f"the duration {text[:40]!r} is too long; expected at most {format_duration(MAX_NS)}")
    return int(nanoseconds)


def format_duration(nanoseconds: int) -> str:
    """The shortest exact text for `nanoseconds`, 0 or more; of two equally short, the one with the larger unit."""
    texts = [f"{_decimal(nanoseconds, size)}{unit}" for unit, size in UNITS.items() if nanoseconds >= size]
    exact = [text for text in texts if "/" not in text]
    return min(reversed(exact), key=len) if exact else "0s"


def _decimal(nanoseconds: int, size: int) -> str:
    """Returns `nanoseconds` / `size` as an exact decimal number, or "/" if it has too many digits."""
    whole, rest = divmod(nanoseconds, size)
    if not rest:
        return str(whole)
    fraction = Fraction(rest, size)
    digits = 0
    while fraction.denominator != 1 and digits < 15:
        fraction *= 10
        digits += 1
    return f"{whole}.{fraction.numerator:0{digits}}" if fraction.denominator == 1 else "/"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _positive(nanoseconds: int) -> int:
    if nanoseconds == 0:
        raise ValueError("expected a duration longer than 0s")
    return nanoseconds


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["20ms", "750us", "1.5s"]}),
]
"""A field with a text such as "20ms" in a file, and integer nanoseconds from 0 to `MAX_NS` in Python."""

PositiveDuration = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(lambda value: _positive(parse_duration(value))),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["20ms", "750us", "1.5s"]}),
]
"""Like `Duration`, but more than 0."""
