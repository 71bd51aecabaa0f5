"""Fitting: cuts and wraps text to lines of 120 columns, after a label.

    >>> print("\\n".join(block("waits", ["rank 0 -> rank 1 (dp #3)", "rank 1 -> rank 0 (ep #3)"])))
    waits     rank 0 -> rank 1 (dp #3); rank 1 -> rank 0 (ep #3)

A text that is too long loses its middle, because its end often is a place in the source.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dpsim.contract.words import counted

WIDTH = 120
"""The number of columns of a line."""

LABEL = 10
"""The number of columns of a label, with the space after it."""


def labelled(label: str, lines: Sequence[str]) -> list[str]:
    """Returns the lines with a label before the first one."""
    return [f"{name:{LABEL}}{line}" for name, line in zip([label, *[""] * len(lines)], lines, strict=False)]


def folded(text: str, most: int = 2, ends: bool = True) -> list[str]:
    """Returns a text in at most `most` lines after a label. If it is too long, it loses its middle, because the end
    often names a line of code. With `ends=False` it loses its end, and the number of omitted characters follows.
    """
    shorten = cut if ends else beginning
    for limit in range(most * (WIDTH - LABEL), 0, -4):
        lines = textwrap.wrap(shorten(text, limit), WIDTH - LABEL, break_on_hyphens=False)
        if len(lines) <= most:
            return lines
    return []


def cut(text: str, limit: int) -> str:
    """Returns at most `limit` characters. The end stays, because it may be a place.

    >>> cut("rank 0 writes hidden[0] on stream comm at p.py:71", 38)
    'rank 0 writes ... comm at p.py:71'
    """
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2 - 2], text[-(limit // 2) + 3 :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"


def beginning(text: str, limit: int) -> str:
    """About `limit` characters, then the number of those left out.

    >>> beginning("assert left == right left.tokens[30] = 130 right.tokens[30] = 7", 42)
    'assert left == right left.tokens[30] = 130 ... and 21 more characters'
    """
    if len(text) <= limit:
        return text
    head = text[: limit + 1].rpartition(" ")[0] or text[:limit]
    return f"{head} ... and {counted(len(text) - len(head), 'more character')}"


def joined(parts: Sequence[str], most: int = 2, one: str = "part") -> list[str]:
    """Returns as many parts as fit into `most` lines, and the number of omitted parts. `one` is the noun of a part."""
    for count in range(len(parts), 0, -1):
        left = len(parts) - count
        text = "; ".join([*parts[:count], *[f"and {counted(left, f'more {one}')}"] * bool(left)])
        lines = textwrap.wrap(text, WIDTH - LABEL, break_on_hyphens=False)
        if len(lines) <= most:
            return lines
    return folded("; ".join(parts[:1]), most)


def block(label: str, parts: Sequence[str], most: int = 2, one: str = "part") -> list[str]:
    """Returns parts after a label; nothing without parts. `one` is the noun of a part."""
    return labelled(label, joined(parts, most, one)) if parts else []


def capped(lines: Sequence[str], most: int, what: str = "lines") -> list[str]:
    """Returns at most `most` lines. The last one has the number of omitted lines."""
    if len(lines) <= most:
        return [*lines]
    return [*lines[: most - 1], f"... and {len(lines) - most + 1} more {what}"]
