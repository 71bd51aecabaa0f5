"""Failures of earlier runs, kept in files: a scenario each, whose first line is the command that shows the failure.

    # replay: pytest tests/test_mine.py::test_mine --dpsim-replay=dpsim1.qz0NPXjaVY5...
    name: drawn
    protocol: mine

`holds` writes the scenario, and the plugin of pytest that line, where the test failed with it: a test may want a
failure. Before pytest runs the test again, the plugin tries its files. So a failure that took Hypothesis a minute to
find and to shrink is seen at once, on every machine that has the file. Once the failure is mended, the file is a
regression test until a user deletes it or moves it to the scenarios. The search for files imports nothing but the
standard library, and does not read the scenarios in them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

COMMAND = "# replay: "
OPTION = "--dpsim-replay="
LONGEST_LINE = 1 << 16
MOST = 100
"""At most this number of files is looked at, those that were written last."""


class SavedFailure(NamedTuple):
    """A file, the test that it is of, and the word that stands for the failure."""

    file: Path
    test: str
    word: str


def name_command(file: Path, replay: str) -> None:
    """Make the command the first line of a file. One that cannot be written stays as it is."""
    from dpsim.trace.appearing import appearing

    with suppress(OSError), appearing(file) as new:
        new.write(f"{COMMAND}{replay}\n{file.read_text('utf-8')}".encode())


def saved_failures(folder: Path) -> list[SavedFailure]:
    """Those of all tests, in the order of their names. What is no such file, or cannot be read, is passed over."""
    files = [(file.stat().st_mtime, file) for file in _files(folder)]
    newest = sorted(files, reverse=True)[:MOST]
    return [one for _, file in sorted(newest, key=lambda entry: entry[1].name) for one in _read(file)]


def _files(folder: Path) -> Iterator[Path]:
    try:
        yield from (file for file in folder.glob("*.yaml") if file.is_file())
    except OSError:
        return


def _read(file: Path) -> Iterator[SavedFailure]:
    try:
        with file.open(encoding="utf-8") as text:
            line = text.readline(LONGEST_LINE)
        words = shlex.split(line.removeprefix(COMMAND)) if line.startswith(COMMAND) else []
    except (OSError, ValueError):  # not UTF-8, a quote without its end
        return
    if len(words) == 3 and words[0] == "pytest" and words[2].startswith(OPTION) and all(map(str.isprintable, words)):
        yield SavedFailure(file, words[1], words[2].removeprefix(OPTION))
