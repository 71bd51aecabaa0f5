"""Tests that a proof names the files that ranks make, also those that no rank opens in Python."""

from __future__ import annotations

import pytest

from tests.torch.runs import PROGRAMS, explored

pytest.importorskip("torch")

FILE, MEMORY = "file:$TMPDIR/place.", "file:/dev/shm/place."


def named(program: str) -> set[str]:
    """Returns the ends of the names of the files that a proof names."""
    found = explored(f"files.py:{program}", 2)
    assert found.verdict == "proven"
    probed = found.exploration.probed()
    return {probe.removeprefix(FILE).removeprefix(MEMORY) for probe in probed if probe.startswith((FILE, MEMORY))}


def test_a_proof_names_each_file_that_a_rank_makes() -> None:
    assert named("makes") == {"saved", "by_name", "folder", "part", "whole", "link"}
    assert not named("reads")
    assert named("makes_in_cpp") == {"script", "mapped", "memory"}


def test_a_proof_names_each_line_that_starts_a_process() -> None:
    found = explored("files.py:starts", 2)
    assert found.verdict == "proven"
    lines = (PROGRAMS / "files.py").read_text().splitlines()
    starts = [at for at, line in enumerate(lines, 1) if any(f"{one}(" in line for one in ("run", "fork", "system"))]
    assert [int(one.where.rpartition(":")[2]) for one in found.facts.outside if one.what == "process"] == starts
