"""Writes a table of Markdown, as in the generated pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns the lines of a table. A bar in a cell is escaped, and a line break becomes a space.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)])


def cell(text: str) -> str:
    """Returns the text of a cell on one line, with escaped bars."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Returns a word that a user types as Markdown code, or "" for an empty one."""
    return f"`{text}`" if str(text) else ""
