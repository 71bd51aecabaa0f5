"""Prints to stderr, silences streams, and recognizes terminals."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def note(text: str) -> None:
    """Prints to stderr. Does nothing if dpsim was started without stderr."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Redirects a stream to /dev/null, so that Python can flush it at exit without an error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether the stream is a terminal. A stream that was closed before dpsim started is None."""
    return stream is not None and stream.isatty()
