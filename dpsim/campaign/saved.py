"""Saved: finds failures that earlier tests saved. Each file is a scenario, and its first line is the failing command.

    # replay: pytest tests/test_mine.py::test_mine --dpsim-replay=dpsim1.qz0NPXjaVY5...
    name: drawn
    protocol: mine

`holds` writes the scenario. If the test then fails, the pytest plugin adds the line: a test may also expect a failure.
It tries the file before the test runs again. So a failure that took a minute to find appears at once, on every machine
that has the file. Finding the files needs only the standard library and their first lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpsim.scenario import Scenario

COMMAND = "# replay: "
OPTION = "--dpsim-replay="
LONGEST_LINE = 1 << 16
MOST = 100
"""The largest number of files that are read, those that were written last."""


class SavedFailure(NamedTuple):
    """A file, its test, and the token of the failure."""

    file: Path
    test: str
    word: str


def name_command(file: Path, replay: str) -> None:
    """Makes the command the first line of a file. A file that cannot be written stays as it is."""
    from dpsim.trace.appearing import appearing

    with suppress(OSError), appearing(file) as new:
        new.write(f"{COMMAND}{replay}\n{file.read_text('utf-8')}".encode())


def save_scenario(scenario: Scenario, file: Path) -> str | None:
    """Writes the scenario of a failure. Returns why it cannot, because the failure itself is more important."""
    from dpsim.scenario import dump_scenario
    from dpsim.trace.appearing import appearing

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with appearing(file) as new:
            new.write(dump_scenario(scenario).encode())
    except OSError as error:
        return error.strerror
    return None


def saved_failures(folder: Path) -> list[SavedFailure]:
    """Returns the saved failures of all tests, sorted by file name. Skips other and unreadable files."""
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
