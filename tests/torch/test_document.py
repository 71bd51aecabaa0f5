"""Runs docs/your-torch-program.md from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.documents import follow

pytest.importorskip("torch")


@pytest.mark.slow
def test_the_document_does_what_it_says(tmp_path: Path) -> None:
    every = follow((ROOT / "docs" / "your-torch-program.md").read_text(), tmp_path)
    assert [command.split()[0] for command in every] == ["dpsim", "dpsim", "dpsim", "pytest"]
