"""Tests of time-outs that pass, of groups that a rank aborts or destroys, and of tags in NCCL's order."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TWINS = {
    "monitored": ("CRASH:RUNTIMEERROR", "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms"),
    "key_in_time": ("CRASH:DISTSTOREERROR", "wait timeout after 2000ms, keys: /ready"),
    "aborted": ("HANG:COLLECTIVE:ABORTED", "rank 0, which has aborted"),
    "aborted_for_a_thread": ("HANG:", "all_reduce"),
    "destroyed": ("LEFTOVER:NEVER_AWAITED", "all_reduce"),
}
"""The programs, with the class of the finding of each twin, and a text of its report."""
ALONE = ("monitored_all", "no_store_in_time")
ON_GLOO = {"monitored": "ended", "monitored_twin": "raised", "monitored_all": "ended"}


@pytest.mark.parametrize("name", TWINS)
def test_a_program_of_limits_is_proven_and_its_twin_is_found(name: str) -> None:
    assert explored(f"limits.py:{name}", 3).verdict == "proven"
    twin = explored(f"limits.py:{name}_twin", 3)
    klass, said = TWINS[name]
    assert blamed(twin)[0].startswith(klass)
    assert said in " ".join(twin.report().split())


@pytest.mark.parametrize("name", ALONE)
def test_a_program_that_expects_its_time_to_be_up_is_proven(name: str) -> None:
    assert explored(f"limits.py:{name}", 3).verdict == "proven"


def test_an_abort_in_the_order_of_nccl() -> None:
    assert explored("limits.py:aborted", 2, order="nccl").verdict == "proven"
    twin = explored("limits.py:aborted_twin", 2, order="nccl")
    assert blamed(twin)[0] == "HANG:COLLECTIVE:ABORTED"


def test_tags_count_on_gloo_and_the_order_counts_on_nccl() -> None:
    assert explored("limits.py:tagged", 2).verdict == "proven"
    twin = explored("limits.py:tagged", 2, order="nccl")
    assert blamed(twin)[:2] == ("CRASH:ASSERTIONERROR", (1,))
    assert explored("limits.py:tagged_in_order", 2, order="nccl").verdict == "proven"


def test_monitored_barriers_end_the_same_on_gloo() -> None:
    command = [sys.executable, str(PROGRAMS / "on_gloo.py"), "3", *ON_GLOO]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == ON_GLOO
