"""Compares the twelve reports with the files in `reports/`, and checks that six of them name the planted fault."""

from __future__ import annotations

import re

import pytest

from tests.vllm.blame import kinds
from tests.vllm.blame.kinds import FOLDER, KINDS, file_of, report_of

PLANTED = {
    "skip": "culprit   rank 1, step 5, dp.agree",
    "repeat": "culprit   rank 1, step 3, dp.agree",
    "count": "culprit   rank 1, step 2, experts.combine",
    "die": "culprit   rank 1, step 2, dp.agree",
    "hang": "culprit   rank 1, step 2, experts.combine",
    "transfer_left_out": "culprit   rank 1, step 6, hidden.send",
}


def without_lines(text: str) -> str:
    """Removes line numbers, because an edit elsewhere in a source file changes them and not the report."""
    return re.sub(r"\.py:\d+", ".py", text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_is_that_of_its_file(kind: str) -> None:
    """The report of each kind equals its file.

    If a change improves a report, `python -m tests.vllm.blame.kinds` rewrites the file.
    """
    assert without_lines(report_of(kind)) == without_lines(file_of(kind).read_text())


def test_there_is_no_other_file() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == {*KINDS}


@pytest.mark.parametrize("kind", PLANTED)
def test_the_report_names_the_culprit(kind: str) -> None:
    assert f"\n{PLANTED[kind]} at " in file_of(kind).read_text()


def test_another_fault_is_another_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faulty twin: with the scenario of another fault, the report differs from the file."""
    monkeypatch.setitem(kinds.KINDS, "skip", kinds.KINDS["repeat"])
    assert without_lines(report_of("skip")) != without_lines(file_of("skip").read_text())
