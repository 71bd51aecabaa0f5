"""Tests that the commands after "next" in reports exist: the real command line parses each, and the test runs the
first.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from dpsim.cli.app import app
from tests.cli.commands import HEALTHY, SKIP, dpsim_, write

COMMANDS = [
    ["run", "skip_one"],
    ["run", "skip_one", "--full"],
    ["run", "skip_one", "--trace", "a b.jsonl", "--off", "RACE:*"],
    ["run", "azure_code_dp4", "--requests", "3", "--off", "HANG:*"],
    ["run", "museum/m-dp-1"],
    ["explore", "museum/m-dp-1"],
    ["explore", "museum/m-dp-1", "--full"],
]


def typed(out: str) -> list[str]:
    """Returns the commands in the line "next" of a report and in the lines below it."""
    found, below = [], False
    for line in out.splitlines():
        below = line.startswith("next      ") or (below and line.startswith(" " * 10))
        found += re.split(" {7}", line[10:]) if below else []
    return found


def problem(command: str) -> str:
    """Returns why the command line refuses a command; empty if it accepts the command."""
    program, *words = shlex.split(command)
    assert program == "dpsim"
    group: Any = typer.main.get_command(app)
    try:
        context = group.make_context("dpsim", list(words))
        name, found, rest = group.resolve_command(context, words)
        found.make_context(name, list(rest), parent=context)
    except Exception as error:
        return str(getattr(error, "message", error)) or type(error).__name__
    return ""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_is_one(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = dpsim_(*words).out
    commands = typed(out)
    assert bool(commands) == ("VIOLATED" in out)
    assert [problem(command) for command in commands] == [""] * len(commands)
    for trace in [word for command in commands for word in shlex.split(command) if word.endswith(".jsonl")]:
        assert Path(trace).is_file()


def test_the_first_command_shows_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["run", "skip_one"], ["explore", "museum/m-dp-1"]):
        short = dpsim_(*words).out
        whole = dpsim_(*shlex.split(typed(short)[0])[1:]).out
        assert "last 5 ops of each rank:" in whole
        assert "last 5 ops of each rank:" not in short
        assert whole.splitlines()[0] == short.splitlines()[0]


@pytest.mark.parametrize(
    "lie", ["dpsim run skip_one --ful", "dpsim rum skip_one", "dpsim compare a", "dpsim replay a b"]
)
def test_a_command_that_does_not_exist_is_found(lie: str) -> None:
    assert problem(lie) != ""


def test_a_path_with_spaces_is_one_word(tmp_path: Path) -> None:
    (tmp_path / "my folder").mkdir()
    file = write(tmp_path / "my folder" / "x.yaml", HEALTHY + SKIP)
    (command,) = typed(dpsim_("run", file, "--module", "tests.agreeing").out)
    assert shlex.split(command) == ["dpsim", "run", str(file), "--module", "tests.agreeing", "--full"]
