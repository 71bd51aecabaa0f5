"""Runs docs/your-own-protocol.md from top to bottom, and checks that a changed document fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.documents import follow

DOCUMENT = ROOT / "docs" / "your-own-protocol.md"


@pytest.mark.slow
def test_the_document_does_what_it_says(tmp_path: Path) -> None:
    every = follow(DOCUMENT.read_text(), tmp_path)
    assert [command.split()[0] for command in every].count("dpsim") == 8
    assert [command.split()[0] for command in every].count("pytest") == 2


def test_the_service_and_the_death(tmp_path: Path) -> None:
    """Runs the last example of the document, which needs no earlier one and is quick."""
    _, _, section = DOCUMENT.read_text().partition("## 9. ")
    assert follow(section, tmp_path) == ["dpsim run beats.yaml --module beats"]


def test_a_document_that_lies_is_found(tmp_path: Path) -> None:
    assert follow("```console\n$ echo one; echo two\none\n...\n```\n", tmp_path) == ["echo one; echo two"]
    for lie in ("one\n", "two\n...\n", "one\nthree\n", ""):
        with pytest.raises(AssertionError, match="the document shows"):
            follow(f"```console\n$ echo one; echo two\n{lie}```\n", tmp_path)
    with pytest.raises(AssertionError, match="fits in 0 places"):
        follow("```python\n# a.py\nx = 1\n```\n\n```diff\n--- a.py\n@@\n-x = 2\n+x = 3\n```\n", tmp_path)
