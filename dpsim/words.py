"""Small words for messages: counts, ranks, durations, names that are near to what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts names with numbers in them as people do."""
    return [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def ranks_text(ranks: Iterable[int]) -> str:
    """In few words: "rank 3", "ranks 0, 1", "ranks 0 to 4, 6 to 63"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    if not parts:
        return "no rank"
    return f"rank{'' if len(runs) == 1 and len(runs[0]) == 1 else 's'} {', '.join(parts)}"


def times(number: int) -> str:
    """In words: "not at all", "once", "twice", "3 times"."""
    return {0: "not at all", 1: "once", 2: "twice"}.get(number, f"{number} times")


def short(value: object, limit: int = 120) -> str:
    """A value for one line; cut in the middle where it is long."""
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-limit // 3 :]}"


def counted(number: int, one: str, more: str = "") -> str:
    """A number and what is counted.

    >>> counted(1, "schedule"), counted(2000, "class", "classes")
    ('1 schedule', '2,000 classes')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question at the end of a message, "; did you mean 'x'?", or nothing if no known word is near. Case does
    not count.
    """
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]!r}?" if near else ""


def duration(ns: float) -> str:
    """Three digits and a unit.

    >>> duration(812), duration(1_234_567), duration(35_820_000_000), duration(754_000_000_000)
    ('812 ns', '1.23 ms', '35.8 s', '754 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size * 0.9995:
            value = ns / size
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{ns:.0f} ns"
