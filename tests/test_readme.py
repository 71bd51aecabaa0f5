"""What the README shows is what the commands print: each of its `$` lines is typed, and every line below it comes, in
that order; `...` stands for lines that are left out. Its files are there where they are typed.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from tests import ROOT, documents

README = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"^    \$ \.venv/bin/dpsim (.*)\n((?:    .*\n|\n)+)", README, re.MULTILINE)


def typed(command: str) -> list[str]:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, shlex.split(command), prog_name="dpsim").stdout.split("\n")


def missing(shown: str, printed: list[str]) -> str | None:
    """The first line that does not come, after those before it."""
    at = 0
    for line in filter(None, (line.removeprefix("    ").rstrip() for line in shown.split("\n"))):
        if line == "...":
            continue
        if line not in printed[at:]:
            return line
        at = printed.index(line, at) + 1
    return None


def test_the_readme_shows_commands() -> None:
    assert [command.split()[0] for command, _ in SHOWN] == [*["run"] * 2, "scenario", "explore", *["run"] * 4]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_commands_print_what_the_readme_shows(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in documents.files(README):
        (tmp_path / name).write_text(text)
    own = "--module" in command  # a module of that name would stay in this process
    lines = documents.typed(f"dpsim {command}", tmp_path, ROOT).split("\n") if own else typed(command)
    assert missing(shown, lines) is None


def test_a_line_that_does_not_come_is_found() -> None:
    assert missing("    one\n    three\n", ["one", "two"]) == "three"
    assert missing("    two\n    one\n", ["one", "two"]) == "one"
