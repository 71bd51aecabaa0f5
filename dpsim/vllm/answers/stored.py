"""Stored answers of the engine's own code: questions to published releases on a CPU, with their answers.

    for row in answers("ladder", "0.33.0"):
        ...

They are test data and no part of the wheel. So dpsim looks for a folder in three places: the named one, the one in
the variable DPSIM_ENGINE_ANSWERS, and tests/data/engine of its clone.

Its README says what each file asks and how many rows it has. Without that number a truncated file would be equal.
Another folder has files of the same names, for answers of other releases or to other questions.
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
from dpsim.vllm.answers.comparison import Row, numbers

VARIABLE = "DPSIM_ENGINE_ANSWERS"
SUFFIX = ".jsonl.gz"
README = "README.md"

MOST_BYTES, MOST_ROWS, MOST_OF_A_LINE, MOST_NUMBER = 32 << 20, 100_000, 64 << 10, 100_000
"""Limits of an expanded file: bytes, rows, bytes of a row, a number in it. The stored ones have a tenth at most."""

MOST_OF_README = 1 << 20
"""The most bytes that are read."""

_CLONE = Path(__file__).resolve().parents[3]


class NoAnswers(BadInput):
    """There is no folder with stored answers, or a file in it cannot be read. The message names the places."""


def folder(named: Path | None = None) -> Path:
    """The folder of the stored answers. Raises NoAnswers if there is none."""
    variable = os.environ.get(VARIABLE)
    if named is not None:
        return _with_answers(named, "--answers")
    if variable:
        return _with_answers(Path(variable), VARIABLE)
    in_clone = _CLONE / "tests" / "data" / "engine"
    if (_CLONE / "pyproject.toml").is_file() and files_in(in_clone):
        return in_clone
    raise NoAnswers(
        "no stored answers of the engine: a wheel has none, and this is no clone with tests/data/engine; "
        f"name their folder with --answers FOLDER or {VARIABLE}"
    )


def _with_answers(given: Path, by: str) -> Path:
    if not files_in(given):
        what = f"holds no file *{SUFFIX}" if given.is_dir() else "is no folder"
        raise NoAnswers(f"{given}: {what} with stored answers of the engine (named by {by})")
    return given


def files_in(place: Path) -> list[str]:
    """The names of the files with answers, without their suffix."""
    return sorted(file.name.removesuffix(SUFFIX) for file in place.glob(f"*{SUFFIX}"))


def answers(file: str, version: str | None = None, place: Path | None = None) -> list[Row]:
    """The rows of a file, in order; of one release, or of all. Raises NoAnswers for a file that cannot be read, has no
    rows, or not the number of the folder's README.
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
        told = "at least one" if expected is None else f"{expected:,}, as {path.parent / README} says"
        raise NoAnswers(f"{path}: {counted(len(rows), 'row')}; expected {told}")
    return rows if version is None else [row for row in rows if row["version"] == version]


def _refuse_pipe(path: Path) -> None:
    """Raise NoAnswers, unread, for a pipe, which waits for its writer."""
    try:
        refuse_pipes(path, "stored answers of the engine")
    except ScenarioError as error:
        raise NoAnswers(str(error)) from None


def rows_of(path: Path) -> int | None:
    """How many rows a file has by the README beside it: | `decide.jsonl.gz` | 1,500 |. None if it says nothing."""
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
    _refuse_huge(row)
    return row


def _refuse_huge(value: Any) -> None:
    """Raise ValueError for a number of which no question of an engine is made: a list of that length, for one."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _refuse_huge(inner)
    elif isinstance(value, int | float) and not abs(value) <= MOST_NUMBER:
        raise ValueError(f"the number {shown(value)}; expected none beyond {MOST_NUMBER:,}")
