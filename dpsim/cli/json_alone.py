"""Keeps stdout for the one JSON object of `--json`, even if a protocol prints to stdout.

with json_alone(as_json):
    ...                         # prints of this process and of worker processes go to stderr
    say_json(found)             # this goes to stdout
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, TextIO

STDOUT, STDERR = 1, 2

SCHEMA_VERSION = 2
"""The version of the objects that `--json` prints. It increases if a key changes its meaning."""


@dataclass
class Output:
    """The state of one command. `asked`: the user gave `--json`. `said`: the command has printed its object."""

    asked: bool = False
    said: bool = False


OUTPUT = Output()
"""The state of the current command. With it, a command that ends with an error prints exactly one object."""


def ask(wanted: bool) -> bool:
    """Notes that the user gave `--json`. typer calls this while it parses the options."""
    OUTPUT.asked |= wanted
    return wanted


def object_text(found: dict[str, Any]) -> str:
    """Returns the text of a command's object, and notes that the command prints it."""
    OUTPUT.said = True
    content = {"schema_version": SCHEMA_VERSION, **found}
    try:
        return json.dumps(content, allow_nan=False)
    except (TypeError, ValueError):  # a figure of a program that JSON lacks
        return json.dumps(_in_json(content))


def _in_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _in_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(one) for one in value]
    if not isinstance(value, str | int | float) and callable(getattr(value, "tolist", None)):
        return _in_json(value.tolist())
    known = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if known else str(value)


def begin() -> None:
    """Resets the state, because one process may run several commands."""
    OUTPUT.asked = OUTPUT.said = False


_kept: list[TextIO] = []


def stdout() -> TextIO:
    """Returns the stream for results."""
    return _kept[-1] if _kept else sys.stdout


@contextmanager
def json_alone(wanted: bool) -> Iterator[None]:
    """Redirects stdout to stderr, except for `say`. Does nothing if `wanted` is False."""
    if not wanted or sys.stdout is None or sys.stderr is None:
        yield
        return
    with _descriptor() as own, redirect_stdout(sys.stderr):
        _kept.append(own)
        try:
            yield
        finally:
            _kept.pop()


@contextmanager
def _descriptor() -> Iterator[TextIO]:
    """Descriptor 1 leads to stderr meanwhile, also in processes that start then."""
    stream = sys.stdout
    try:
        real = stream.fileno() == STDOUT
    except (OSError, ValueError):  # a stream of a test
        real = False
    if not real:
        yield stream
        return
    stream.flush()
    kept = os.dup(STDOUT)
    try:
        os.dup2(STDERR, STDOUT)
        with open(kept, "w", encoding=stream.encoding, errors=stream.errors, closefd=False) as own:
            yield own
    finally:
        with suppress(OSError):
            os.dup2(kept, STDOUT)
        os.close(kept)
