"""Reads stored answers of vLLM's own code: questions to published releases on a CPU, with their answers.

    for row in answers("ladder", "0.33.0"):
        ...

The folder is the one that the user names, the one in the variable DPSIM_ENGINE_ANSWERS, or `answers/` of this package.
The README of the folder describes each file and contains its number of rows. Without that number, a check could not
notice a truncated file. A user's folder has files of the same names, with answers of other releases or to other
questions.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

from dpsim.contract.words import BadInput, counted
from dpsim.scenario.errors import ScenarioError, refuse_pipes, shown
from dpsim_engine.comparison import Row, numbers

VARIABLE = "DPSIM_ENGINE_ANSWERS"
SUFFIX = ".jsonl.gz"
README = "README.md"

MOST_BYTES, MOST_ROWS, MOST_OF_A_LINE, MOST_NUMBER = 32 << 20, 100_000, 64 << 10, 100_000
"""Limits of an expanded file: bytes, rows, bytes of a row, and numbers. Stored files use at most a tenth of them."""

MOST_OF_README = 1 << 20
"""The largest number of bytes that dpsim reads of a README."""

MAY_BE_HUGE = re.compile(rb"[0-9]{6}|[eE][+-]?[0-9]|Infinity|NaN")
"""Matches each line with a number beyond MOST_NUMBER, which has six digits. A search is quicker than a walk."""

OWN = Path(__file__).with_name("answers")
"""The folder with the answers of this package."""


class NoAnswers(BadInput):
    """A folder has no stored answers, or dpsim cannot read a file in it. The message names it."""


def folder(named: Path | None = None) -> Path:
    """Returns the folder of the stored answers. Raises NoAnswers if the user's folder has none."""
    if named is not None:
        return _with_answers(named, "--answers")
    variable = os.environ.get(VARIABLE)
    return _with_answers(Path(variable), VARIABLE) if variable else OWN


def _with_answers(given: Path, by: str) -> Path:
    if not files_in(given):
        what = f"holds no file *{SUFFIX}" if given.is_dir() else "is no folder"
        raise NoAnswers(f"{given}: {what} with stored answers of the engine (named by {by})")
    return given


def files_in(place: Path) -> list[str]:
    """Returns the names of the files with answers, without their suffix."""
    return sorted(file.name.removesuffix(SUFFIX) for file in place.glob(f"*{SUFFIX}"))


def answers(file: str, version: str | None = None, place: Path | None = None) -> list[Row]:
    """Returns the rows of a file, in order, of one release or of all.

    Raises NoAnswers for a file that dpsim cannot read, and for one without rows. It also raises if the number of rows
    differs from the folder's README.
    """
    path = (place or folder()) / f"{file}{SUFFIX}"
    rows: list[Row] = []
    _refuse_pipe(path)
    try:
        with gzip.open(path) as unpacked:
            while line := unpacked.readline(MOST_OF_A_LINE + 1):
                rows.append(_row(line))
                if unpacked.tell() > MOST_BYTES:
                    raise ValueError(f"the file expands to more than {MOST_BYTES >> 20} MiB")
                if len(rows) > MOST_ROWS:
                    raise ValueError(f"more than {MOST_ROWS:,} rows")
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise NoAnswers(f"{path}: line {len(rows) + 1} cannot be read: {error}") from error
    expected = rows_of(path)
    if expected not in (None, len(rows)) or not rows:
        number = "at least one" if expected is None else f"{expected:,}, as {path.parent / README} says"
        raise NoAnswers(f"{path}: {counted(len(rows), 'row')}; expected {number}")
    return rows if version is None else [row for row in rows if row["version"] == version]


def _refuse_pipe(path: Path) -> None:
    """Raises NoAnswers for a pipe without reading it, because a read would wait for the writer."""
    try:
        refuse_pipes(path, "stored answers of the engine")
    except ScenarioError as error:
        raise NoAnswers(str(error)) from None


def rows_of(path: Path) -> int | None:
    """Returns the number of rows of a file from the README beside it, or None if the README does not contain it.

    A line of the README looks like | `decide.jsonl.gz` | 1,500 |.
    """
    readme = path.parent / README
    _refuse_pipe(readme)
    try:
        with readme.open("rb") as file:
            text = file.read(MOST_OF_README).decode("utf-8", "replace")
    except OSError:
        return None
    found = re.search(rf"^\| `{re.escape(path.name)}` \| ([0-9,]+) \|", text, re.MULTILINE)
    return None if found is None else int(found[1].replace(",", ""))


def _row(line: bytes) -> Row:
    if len(line) > MOST_OF_A_LINE:
        raise ValueError(f"a line of more than {MOST_OF_A_LINE >> 10} KiB")
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("version"), str):
        raise ValueError("expected a JSON object with a version")
    if not numbers(row["version"]):
        raise ValueError(f"the version {row['version']!r} is no release; expected one such as 0.33.0")
    if MAY_BE_HUGE.search(line):
        _refuse_huge(row)
    return row


def _refuse_huge(value: Any) -> None:
    """Raises ValueError for a number that is too large for any question, because a list might get this length."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _refuse_huge(inner)
    elif isinstance(value, int | float) and not abs(value) <= MOST_NUMBER:
        raise ValueError(f"the number {shown(value)}; expected none beyond {MOST_NUMBER:,}")
