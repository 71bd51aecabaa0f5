"""A table of Markdown, as the generated pages have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The lines of a table. A bar in a cell is escaped, and a line break becomes a space.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)])


def cell(text: str) -> str:
    """The text of a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """A word that a user types; empty for an empty one."""
    return f"`{text}`" if str(text) else ""
