"""Fitting: cuts and wraps text to lines of 120 columns, after a label.

    >>> print("\\n".join(block("waits", ["rank 0 -> rank 1 (dp #3)", "rank 1 -> rank 0 (ep #3)"])))
    waits     rank 0 -> rank 1 (dp #3); rank 1 -> rank 0 (ep #3)

A text that is too long loses its end, or its middle if its end is a place in the source. Special step numbers become
words: an actor may fail before its first step, or work in no step at all.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence

from dpsim.contract.interface import NO_STEP
from dpsim.contract.words import counted

WIDTH = 120
"""The number of columns of a line."""

LABEL = 10
"""The number of columns of a label, with the space after it."""

NO_MAJORITY = "no majority and no other evidence"
"""Why no rank is blamed, if a check has no other reason."""

_PLACE = re.compile(r"\.\w+:\d+\W*$")
"""Matches file and line at the end of a text."""

_STEPS = re.compile(rf"\b(?:in |of )?step (-\d+|{NO_STEP})\b")


def step_words(text: str) -> str:
    """Returns the text with words in place of special step numbers: before the first step, or in no step.

    Other negative numbers stand for steps of a warm-up, and are before the first step as well.

        >>> step_words("raised in step -1; rank 2, step 1000000, drain")
        'raised before its first step; rank 2, in no step, drain'
    """
    return _STEPS.sub(lambda found: "in no step" if found[1] == str(NO_STEP) else "before its first step", text)


def labelled(label: str, lines: Sequence[str]) -> list[str]:
    """Returns the lines with a label before the first one."""
    return [f"{name:{LABEL}}{line}" for name, line in zip([label, *[""] * len(lines)], lines, strict=False)]


def folded(text: str, most: int = 2, shorten: Callable[[str, int], str] | None = None) -> list[str]:
    """Returns a text in at most `most` lines after a label. `shorten` returns a text within a number of characters. By
    default, a text that is too long loses its middle, because its end often names a line of code.
    """
    shorten = shorten or cut
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


def shortened(text: str, limit: int = WIDTH - LABEL) -> str:
    """Returns at most `limit` characters. A longer text loses its end, at a word boundary.

    >>> shortened("rank 0 leaves an idle get", 20), shortened("rank 0 leaves", 20)
    ('rank 0 leaves an ...', 'rank 0 leaves')
    """
    if len(text) <= limit:
        return text
    head = text[: limit - 3]
    return f"{head.rpartition(' ')[0] or head[:-1]} ..."


def but_place(text: str, limit: int) -> str:
    """Returns at most `limit` characters. The text keeps a place in the source at its end, and else loses its end.

    >>> but_place("rank 0 calls agree at a.py:104", 26), but_place("rank 0 waits in agree before its first step", 26)
    ('rank 0 ... a.py:104', 'rank 0 waits in agree ...')
    """
    return cut(text, limit) if _PLACE.search(text) else shortened(text, limit)


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
    return folded("; ".join(parts[:1]), most, but_place)


def block(label: str, parts: Sequence[str], most: int = 2, one: str = "part") -> list[str]:
    """Returns parts after a label; nothing without parts. `one` is the noun of a part."""
    return labelled(label, joined(parts, most, one)) if parts else []


def capped(lines: Sequence[str], most: int, what: str = "lines") -> list[str]:
    """Returns at most `most` lines. The last one has the number of omitted lines."""
    if len(lines) <= most:
        return [*lines]
    return [*lines[: most - 1], f"... and {len(lines) - most + 1} more {what}"]
