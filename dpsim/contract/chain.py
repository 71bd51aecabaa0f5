"""The calls that led a program to a line: functions and places of a few frames, the innermost first.

    >>> chain_text((("agree", "app/step.py:88"), ("run", "app/step.py:31"), ("main", "app/loop.py:7")))
    'app/step.py:88 < agree < step.py:31 < run < loop.py:7'

Read it from the left: line 88 lies in `agree`, which line 31 called; that lies in `run`, which line 7 called.
"""

from __future__ import annotations

from typing import TypeAlias

Chain: TypeAlias = tuple[tuple[str, str], ...]
"""Function and place of each frame, the innermost first."""

CHAIN_FRAMES = 3
"""The most frames that a chain has."""


def chain_text(chain: Chain) -> str:
    """In a line. The first place stands in full, as records have it; the others without their folders."""
    parts = [part for function, place in chain for part in (place.rpartition("/")[2], function)]
    return " < ".join([*[chain[0][1] for _ in parts[:1]], *parts[1:-1]])
