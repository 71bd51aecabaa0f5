"""The chain of calls that led a program to a line: function and place of a few frames, the innermost first.

    >>> chain_text((("agree", "app/step.py:88"), ("run", "app/step.py:31"), ("main", "app/loop.py:7")))
    'app/step.py:88 < agree < step.py:31 < run < loop.py:7'

The text reads from the left: line 88 is in `agree`; line 31 in `run` called `agree`; line 7 in `main` called `run`.
"""

from __future__ import annotations

from typing import TypeAlias

Chain: TypeAlias = tuple[tuple[str, str], ...]
"""(function, "file:line") of each frame, the innermost first."""

CHAIN_FRAMES = 3
"""The maximal number of frames in a chain."""


def chain_text(chain: Chain) -> str:
    """Returns the chain in one line. The first place has its full path, as in records; the others have no folders."""
    parts = [part for function, place in chain for part in (place.rpartition("/")[2], function)]
    return " < ".join([*[chain[0][1] for _ in parts[:1]], *parts[1:-1]])
