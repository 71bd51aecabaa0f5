"""Tests of calls from a second thread of a rank. The schedule decides their order against the calls of the main
thread.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")

SHARED = "locks, queues, events or joins order what threads share in Python"
TWINS = {
    "prefetch": "HANG:COLLECTIVE:MISSING_RANK",
    "two_workers": "MISMATCH:COLLECTIVE:COUNT",
    "two_locks": "HANG:FLAG:NEVER_SET",
    "pool": "CRASH:ASSERTIONERROR",
    "daemon": "HANG:COLLECTIVE:MISSING_RANK",
    "beats": "HANG:COLLECTIVE:MISSING_RANK",
    "saved": "MISMATCH:COLLECTIVE:OP",
    "notified": "HANG:FLAG:NEVER_SET",
    "receives": "HANG:P2P:UNMATCHED_RECV",
    "waits_elsewhere": "LEFTOVER:NEVER_AWAITED",
}
"""The programs, with the class of each twin's finding."""


def test_a_thread_with_its_own_group_is_proven() -> None:
    found = explored("threads.py:two_groups", 2)
    assert (found.verdict, found.exploration.runs) == ("proven", 1)
    assert SHARED in found.assumes


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gloo", "nccl"])
def test_two_threads_on_one_group_are_found(order: str) -> None:
    assert explored("threads.py:two_groups", 2, order=order).verdict == "proven"
    twin = explored("threads.py:one_group", 2, order=order)
    assert blamed(twin)[0] == "CRASH:ASSERTIONERROR"
    assert twin.exploration.runs > 1


@pytest.mark.slow
def test_the_schedule_that_is_found_fails_on_gloo_too() -> None:
    names = ["two_groups", "one_group_in_two_orders"]
    command = [sys.executable, str(PROGRAMS / "on_gloo.py"), "2", *names]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == dict(zip(names, ["ended", "raised"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_a_program_with_threads_is_proven_and_its_twin_is_found(name: str) -> None:
    found = explored(f"threads.py:{name}", 2)
    assert found.verdict == "proven", found.report()
    twin = explored(f"threads.py:{name}_twin", 2)
    assert twin.findings[0].klass == TWINS[name]
    assert all(one.confirmed for one in twin.shown)
    assert "threads.py:" in twin.report()


def test_a_thread_without_calls_changes_nothing() -> None:
    found = explored("threads.py:quiet", 2)
    assert (found.verdict, found.exploration.runs) == ("proven", 1)
    assert SHARED not in found.assumes
