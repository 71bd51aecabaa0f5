"""Tests of calls from a second thread of a rank. The schedule decides their order against the calls of the main
thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from unittest import mock

import pytest

from dpsim.torch import found
from dpsim.torch.conversation import Conversation
from dpsim.torch.messages import FORMS
from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")

SHARED = "locks, queues, events or joins order what threads share in Python"
ONE_ORDER = "no order of Python's threads decides what a rank does"
TWINS = {
    "prefetch": "HANG:COLLECTIVE:MISSING_RANK",
    "two_workers": "MISMATCH:COLLECTIVE:COUNT",
    "two_locks": "HANG:FLAG:NEVER_SET",
    "pool": "CRASH:ASSERTIONERROR",
    "daemon": "HANG:COLLECTIVE:MISSING_RANK",
    "beats": "HANG:COLLECTIVE:MISSING_RANK",
    "saved": "HANG:COLLECTIVE:MISSING_RANK",
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


def test_a_thread_without_calls_has_one_schedule_if_it_only_fills_a_queue() -> None:
    quiet = explored("threads.py:quiet", 2)
    assert (quiet.verdict, quiet.exploration.runs) == ("proven", 1)
    assert SHARED in quiet.assumes
    assert not any(ONE_ORDER in one for one in quiet.assumes)


@pytest.mark.parametrize("name", ["ends_first", "finishes_first"])
def test_the_order_of_threads_that_make_no_call_is_a_choice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert blamed(explored(f"threads.py:{name}", 2))[0] == "MISMATCH:COLLECTIVE:COUNT"
    monkeypatch.setattr(found, "MOST_CHOICES", 0)  # the faulty twin, which says so
    monkeypatch.setattr(found, "_known", {})
    twin = explored(f"threads.py:{name}", 2)
    assert twin.verdict == "proven"
    [said] = [one for one in twin.assumes if ONE_ORDER in one]
    assert "threads.py:" in said


def test_a_rank_makes_no_call_for_a_message_that_has_no_answer() -> None:
    """Otherwise dpsim may continue another thread there, whose conversation reads the next message of this one."""
    from dpsim.torch.child.pipe import AHEAD, ENDS

    for name in {*AHEAD} - {*ENDS, "done", "imported"}:
        rank = mock.Mock(spec_set=["step", "rank"])  # it has no calls
        conversation = Conversation(rank, mock.Mock(), loops=True)
        conversation.times = mock.Mock()
        values = [mock.MagicMock() for _ in FORMS[name]]
        with suppress(StopIteration):
            getattr(conversation, f"on_{name}")(*values).send(None)


def test_threads_that_wait_for_each_other_hang_in_the_simulation() -> None:
    """An hour of silence does not matter, because dpsim sees what each thread waits for."""
    found = explored("threads.py:wait_for_each_other", 1, silence=3_600)
    assert found.verdict == "violated"
    assert blamed(found)[0].startswith("HANG")
