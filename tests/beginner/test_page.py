"""Tests that docs/mistakes.md is up to date, that each report names a cause and a line, and that dpsim accepts each
cure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.beginner.mistakes import MISTAKES
from tests.beginner.page import compared, cure, shown

PAGE = ROOT / "docs" / "mistakes.md"
CURE = "python -m tests.beginner.page docs/mistakes.md"
HOLDS = ("print_only", "never_set_step", "float_sum", "time_sleep")
"""Mistakes that no schedule turns into a finding. dpsim names them in a note or in an assumption of its verdict."""


def written(file: Path, *options: str) -> str:
    """Runs the generator in a separate process, because it registers the protocols of the mistakes. Returns the file
    that it writes.
    """
    command = [sys.executable, "-m", "tests.beginner.page", str(file), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return file.read_text()


def stale(text: str, parts: list[str]) -> list[str]:
    """Returns the parts that the page does not contain, or that it contains before the preceding part."""
    missing, at = [], 0
    for part in parts:
        found = text.find(part.rstrip(), at)
        missing += [part] * (found < 0)
        at = max(at, found)
    return missing


@pytest.mark.slow
def test_the_simulation_prints_what_the_page_shows(tmp_path: Path) -> None:
    parts = json.loads(written(tmp_path / "parts.json", "--sections"))
    assert len(parts) == len(MISTAKES)
    text = PAGE.read_text()
    assert stale(text, parts) == [], CURE
    assert len(stale(text.replace("did you forget await?", "oh"), parts)) == 1


@pytest.mark.slow
def test_gloo_prints_it_and_each_cure_holds(tmp_path: Path) -> None:
    assert written(tmp_path / "page.md") == PAGE.read_text(), CURE


def test_each_mistake_has_a_place_or_a_warning() -> None:
    """Checks the first report of each section of the page. It names a line of the program. For a mistake in `HOLDS` it
    is a good verdict with a note or an assumption.
    """
    sections = PAGE.read_text().split("\n## ")[1:]
    assert len(sections) == len(MISTAKES) >= 20
    for mistake, section in zip(MISTAKES, sections, strict=True):
        _, _, report = section.partition("```text\n")
        report = report.partition("\n```")[0]
        assert report.startswith(("HELD", "PROVEN") if mistake.name in HOLDS else ("VIOLATED", "dpsim: "))
        says = ("note: ", "assumes: ") if mistake.name in HOLDS else (f"{mistake.name}.py:",)
        assert any(word in report for word in says), report


def test_a_cure_that_does_not_hold_is_no_cure() -> None:
    mistake = MISTAKES[0]
    assert "Corrected lines:" in cure(mistake, "...\nHELD  in 1 schedule: 2 steps on 2 ranks (sim)\n")
    with pytest.raises(AssertionError, match="the cure of forgotten_await does not hold"):
        cure(mistake, "VIOLATED  HANG\n")


def test_gloo_may_not_differ_without_a_reason() -> None:
    mistake = MISTAKES[0]
    assert mistake.gloo == ""
    assert compared(mistake, "HELD  1 (sim)\n", "HELD  1 (gloo)\n") == "Gloo prints the same.\n\n"
    with pytest.raises(AssertionError, match="forgotten_await on gloo"):
        compared(mistake, "HELD  1 (sim)\n", "HELD  2 (gloo)\n")


def test_the_page_leaves_out_times_and_commands() -> None:
    lines = "VIOLATED  X\nobserved  no rank moved for 1 s\nnext      dpsim run\nrun  x on sim: 3 ms\nexpected: held\n"
    assert shown(lines) == "VIOLATED  X"
    assert (
        shown("printed\nHELD  in 1 schedule: 2 steps on 2 ranks (sim)\nnote: n\n\nsteps  2\n")
        == "HELD  in 1 schedule: 2 steps on 2 ranks\nnote: n"
    )
