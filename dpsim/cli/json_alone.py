"""What a command prints with `--json` is one object on stdout, whatever a protocol prints.

with json_alone(as_json):
    ...                         # what is printed here goes to stderr, by worker processes as well
    say_json(found)             # and this to stdout
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, TextIO

STDOUT, STDERR = 1, 2

SCHEMA_VERSION = 1
"""Of the objects that `--json` prints. It rises if a key changes its meaning."""


@dataclass
class Output:
    """Of one command. `asked`: its user gave `--json`; `said`: its object is on stdout."""

    asked: bool = False
    said: bool = False


OUTPUT = Output()
"""A command that ends with an error prints an object too, unless it has printed one."""


def ask(wanted: bool) -> bool:
    """Note that the user gave `--json`. typer calls this while it reads the options."""
    OUTPUT.asked |= wanted
    return wanted


def object_text(found: dict[str, Any]) -> str:
    """The object of a command, which is now printed."""
    OUTPUT.said = True
    return json.dumps({"schema_version": SCHEMA_VERSION, **found})


def begin() -> None:
    """Forget what the last command of this process did."""
    OUTPUT.asked = OUTPUT.said = False


_kept: list[TextIO] = []


def stdout() -> TextIO:
    """Where results go."""
    return _kept[-1] if _kept else sys.stdout


@contextmanager
def json_alone(wanted: bool) -> Iterator[None]:
    """Keep stdout for `say`, if it is wanted."""
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
    """The stream of stdout by another descriptor, while processes that start find stderr in its place."""
    stream = sys.stdout
    try:
        real = stream.fileno() == STDOUT
    except (OSError, ValueError):  # a test's
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
