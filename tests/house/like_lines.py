"""Counts what is written twice: pairs of places that share six or more consecutive like lines.

    python -m tests.house.like_lines               # dpsim, real, benchmarks and tests of the repository you are in
    python -m tests.house.like_lines OTHER/TREE    # the Python files of other folders, an older checkout's for example

Two lines are *like* if they are equal once white space is folded: names, numbers and texts have to be the same. What
every file has is passed over, as if it was not there: blank lines, comments, docstrings, imports, and lines of
punctuation alone. A *pair* is two places, in two files or apart in one, from which on at least six like lines follow
one another. It reaches as far as they do. So code that stands in three places counts as three pairs, and code that was
renamed on its way counts as none.

The number is a thermometer and no limit: six like lines may be one call to the same helper, which is what is wanted.
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

FOLDERS = ("dpsim", "real", "benchmarks", "tests")
LEAST = 6


class Line(NamedTuple):
    number: int
    text: str


class Place(NamedTuple):
    """Lines of a file; `first` and `last` are numbers of lines, as an editor shows them."""

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
    """The lines of a file that say something, with their white space folded."""
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
    """All pairs of sources by name, the longest first."""
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
    """The pair of which these are the beginnings; none if they are in the middle of one."""
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
    """The Python files under the folders, by path; not those of hidden folders."""
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
