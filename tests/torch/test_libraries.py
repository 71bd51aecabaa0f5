"""Tests of libraries on top of torch.distributed. Each program holds, and dpsim reports a mistake of its user at the
user's line.
"""

from __future__ import annotations

import pytest

from tests.torch.runs import explored
from tests.torch.test_targets import PIPELINES

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

FURTHER = {
    "hsdp": "HANG:COLLECTIVE:MISSING_RANK",
    "fsdp1": "HANG:COLLECTIVE:MISSING_RANK",
    "differentiable": "HANG:COLLECTIVE:MISSING_RANK",
    "hooks": "MISMATCH:COLLECTIVE:COUNT",
    "whole_state": "HANG:COLLECTIVE:MISSING_RANK",
    "local_sgd": "HANG:COLLECTIVE:MISSING_RANK",
    "hierarchical": "HANG:COLLECTIVE:MISSING_RANK",
    "rendezvous": "CRASH:DISTNETWORKERROR",
    "saved_later": "CRASH:CHECKPOINTEXCEPTION",
    "saved_by_a_thread": "HANG:COLLECTIVE:MISSING_RANK",
}
"""The programs of `further.py`, with the class of each twin's finding."""
FOUR = ("hsdp",)


@pytest.mark.parametrize("name", FURTHER)
def test_a_further_library_holds_and_its_twin_does_not(name: str) -> None:
    ranks = 4 if name in FOUR else 2
    assert explored(f"further.py:{name}", ranks).verdict == "proven"
    twin = explored(f"further.py:{name}_twin", ranks)
    assert twin.findings[0].klass == FURTHER[name]
    assert "further.py:" in twin.report()


def test_pytorchs_own_tests_of_barriers_hold() -> None:
    assert explored("pytorch_tests.py:barriers", 3).verdict == "proven"


@pytest.mark.parametrize("name", PIPELINES)
def test_a_last_stage_that_expects_more_microbatches_is_found(name: str) -> None:
    twin = explored(f"pipelines.py:{name}_twin", 2)
    assert twin.findings[0].klass == "HANG:P2P:UNMATCHED_RECV"
    assert "pipelines.py:" in twin.report()
