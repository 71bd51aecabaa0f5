"""Counts repeated code: pairs of places that share six or more consecutive like lines.

    python -m tests.house.like_lines               # dpsim, real, benchmarks, tests and tools of this repository
    python -m tests.house.like_lines OTHER/TREE    # the Python files of other folders, such as an older checkout

Two lines are *like* if they are equal apart from white space. So names, numbers and texts must be equal. The command
skips lines that occur in every file: blank lines, comments, docstrings, imports, and lines with only punctuation. A
*pair* is two places, in two files or in one, where at least six like lines follow each other; it includes all of them.
So code that is in three places counts as three pairs, and a copy with renamed variables does not count.

The number of pairs is only a hint. No test limits it, because six like lines may be one call of the same helper.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("dpsim", "real", "benchmarks", "tests", "tools")
LEAST = 6


class Line(NamedTuple):
    number: int
    text: str


class Place(NamedTuple):
    """Lines of a file. `first`, `last`: line numbers, from 1."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first}-{self.last}"


class Pair(NamedTuple):
    """Two places that share `lines` like lines."""

    lines: int
    one: Place
    other: Place


def telling_lines(source: str) -> list[Line]:
    """Returns the lines of a file that are not skipped, with folded white space."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    passed_over: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and _is_text(node.value)):
            passed_over.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    folded = ((number, " ".join(line.split())) for number, line in enumerate(lines, 1) if number not in passed_over)
    return [Line(number, text) for number, text in folded if re.search(r"\w", text)]


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def pairs(files: dict[str, str]) -> list[Pair]:
    """Returns all pairs of the sources, given by name, the longest pair first."""
    told = {name: telling_lines(source) for name, source in files.items()}
    begins: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in told.items():
        for at in range(len(lines) - LEAST + 1):
            begins[tuple(line.text for line in lines[at : at + LEAST])].append((name, at))
    found = [
        pair
        for places in begins.values()
        for later, other in enumerate(places)
        for one in places[:later]
        for pair in _longest(told, one, other)
    ]
    return sorted(found, key=lambda pair: (-pair.lines, pair))


def _longest(told: dict[str, list[Line]], one: tuple[str, int], other: tuple[str, int]) -> Iterator[Pair]:
    """Yields the pair that begins at these two places, or nothing if they are inside of a longer pair."""
    (name, i), (name_of_other, j) = one, other
    lines, others = told[name], told[name_of_other]
    if i and j and lines[i - 1].text == others[j - 1].text:
        return
    most = min(len(lines) - i, len(others) - j, j - i if name == name_of_other else len(lines))
    length = next((n for n in range(most) if lines[i + n].text != others[j + n].text), most)
    if length >= LEAST:
        yield Pair(
            length,
            Place(name, lines[i].number, lines[i + length - 1].number),
            Place(name_of_other, others[j].number, others[j + length - 1].number),
        )


def sources(folders: Sequence[Path]) -> dict[str, str]:
    """Returns the Python files in the folders by path, without those in hidden folders."""
    files = [(folder, file) for folder in folders for file in sorted(folder.rglob("*.py"))]
    return {
        str(file): file.read_text()
        for folder, file in files
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    }


def main(folders: Sequence[str]) -> None:
    found = pairs(sources([Path(folder) for folder in folders or FOLDERS]))
    print(f"{len(found)} pairs of places share {LEAST} or more like lines, {sum(pair.lines for pair in found)} in all")
    for pair in found:
        print(f"{pair.lines:4}  {pair.one}  {pair.other}")


if __name__ == "__main__":
    main(sys.argv[1:])
