"""Tests that a proof names the files that ranks make, also those that no rank opens in Python."""

from __future__ import annotations

import pytest

from tests.torch.runs import explored

pytest.importorskip("torch")

FILE = "file:$TMPDIR/place."


def named(program: str) -> set[str]:
    """Returns the ends of the names of the files that a proof names."""
    found = explored(f"files.py:{program}", 2)
    assert found.verdict == "proven"
    return {probe.removeprefix(FILE) for probe in found.exploration.probed() if probe.startswith(FILE)}


def test_a_proof_names_each_file_that_a_rank_makes() -> None:
    assert named("makes") == {"saved", "folder", "part", "whole", "link"}
    assert not named("reads")
