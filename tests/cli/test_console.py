"""Tests parts of the output: durations, columns and progress."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import typer

from dpsim.cli.app import app
from dpsim.cli.console import Progress, columns, painted
from dpsim.contract.words import duration
from tests.cli.commands import HEALTHY, MODULE, dpsim_, write


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (812, "812 ns"),
        (999.4, "999 ns"),
        (999.9, "1.00 us"),
        (43_420, "43.4 us"),
        (999_499, "999 us"),
        (999_600, "1.00 ms"),
        (22_715_373, "22.7 ms"),
        (9_999_000_000, "10.0 s"),
        (38_065_195_238, "38.1 s"),
        (754_000_000_000, "754 s"),
        (86_400_000_000_000, "86400 s"),
    ],
)
def test_duration_prints_a_time_in_its_best_unit(ns: float, text: str) -> None:
    assert duration(ns) == text


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress("x on sim", clock) as progress:
        for step in range(1, 250):
            clock.now += 0.125
            progress(step, 1000 if step < 150 else None)
        progress.phase("writing")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "dpsim: x on sim: step 80 of 1000 after 10 s",
        "dpsim: x on sim: step 160 after 20 s",
        "dpsim: x on sim: step 240 after 30 s",
    ]


def test_progress_says_what_is_left_of_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress("x", clock, unit="schedule", budget=25.0) as progress:
        for done in range(1, 31):
            clock.now += 1
            if done == 20:
                progress.set_line("2 units done")
            progress(done, None)
    assert capsys.readouterr().err.splitlines() == [
        "dpsim: x: schedule 10 after 10 s, 15 s left",
        "dpsim: x: 2 units done after 20 s, 5 s left",
        "dpsim: x: 2 units done after 30 s, budget used up",
    ]


def test_a_bar_says_what_is_left_of_a_budget(capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    clock = Clock()
    with Progress("x", clock, budget=60.0) as progress:
        for step in range(20):
            clock.now += 1
            progress(step, 20)
    assert "x, 41 s left" in capsys.readouterr().err


COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
WITH_BUDGET = [name for name, command in COMMANDS.items() if any("--budget" in one.opts for one in command.params)]
GIVEN = ["x.yaml", *MODULE]
MODULES = {"explore": ["explore", "explore_worlds"], "museum": ["museum"]}
BUDGETS = {"explore": [GIVEN, [*GIVEN, "--all-up-to", "ranks=2,steps=1"]], "museum": [["--only", "M-DP-1"]]}


@pytest.mark.parametrize("name", WITH_BUDGET)
def test_each_command_with_a_budget_shows_what_is_left(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new command with `--budget` needs an entry in BUDGETS."""
    budgets = []
    write(Path("x.yaml"), HEALTHY)

    class Noted(Progress):
        def __init__(self, *args: Any, **given: Any) -> None:
            budgets.append(given.get("budget"))
            super().__init__(*args, **given)

    for module in MODULES[name]:
        monkeypatch.setattr(f"dpsim.cli.{module}.Progress", Noted)
    for words in BUDGETS[name]:
        assert dpsim_(name, *words, "--schedules", "1", "--budget", "90s").code in (0, 1)
        dpsim_(name, *words, "--schedules", "1")
    assert budgets == [90.0, None] * len(BUDGETS[name])


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes both streams terminals of 60 columns."""
    for module in ("console", "progress"):
        monkeypatch.setattr(f"dpsim.cli.{module}.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_quick_work_shows_no_bar(capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    clock = Clock()
    with Progress("x", clock) as progress:
        for step in range(4):
            clock.now += 0.1
            progress(step, 4)
        progress.phase("writing")
    assert capsys.readouterr().err == ""


def test_long_work_shows_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    clock = Clock()
    with Progress("x [on] sim", clock) as progress:
        for step in range(20):
            clock.now += 0.1
            progress(step, 20)
        progress.phase("writing")
    said = capsys.readouterr().err
    assert "x [on] sim" in said
    assert "19/20" in said
    assert "writing" in said


ROWS = [("name", "short"), ("x", "a text that is much too long for a terminal of sixty columns, so it goes on")]


def test_columns_are_not_cut_for_a_pipe() -> None:
    assert columns(ROWS) == ["name  short", f"x     {ROWS[1][1]}"]
    assert columns([]) == []
    assert columns([("a", "")]) == ["a"]


def test_long_columns_wrap_on_a_terminal(capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    lines = columns(ROWS, indent=2)
    assert lines[0] == "name  short"
    assert [line[:6] for line in lines[2:]] == ["      "] * len(lines[2:])
    assert max(map(len, lines)) <= 58
    assert " ".join(" ".join(lines[1:]).split()) == f"x {ROWS[1][1]}"


def test_verdicts_are_coloured_only_on_a_terminal_without_no_color(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    assert painted("HELD  6 steps", good=True) == "HELD  6 steps"
    request.getfixturevalue("terminal")
    assert painted("HELD  6 steps", good=True) == "\x1b[32m\x1b[1mHELD\x1b[0m  6 steps"
    assert "\x1b[31m" in painted("VIOLATED  x", good=False)
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    assert painted("HELD  6 steps", good=True) == "HELD  6 steps"
