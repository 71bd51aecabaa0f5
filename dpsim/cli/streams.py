"""stderr, and what a stream is."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def note(text: str) -> None:
    """Print to stderr, if there is one."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let what is still buffered go nowhere, so that Python does not complain at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_terminal(stream: TextIO | None) -> bool:
    """Whether it is a terminal. A stream that was closed before dpsim started is None."""
    return stream is not None and stream.isatty()
