"""The clocks of a rank's threads: sleeps of two threads overlap, work is no sleep, and who waits learns the time.

A program compares its clock with a bound that real processes keep. With a smaller bound, the twin, it fails.
"""

from __future__ import annotations

import pytest

from tests.torch.runs import explored

pytest.importorskip("torch")

BOUNDS = {
    "works": ("0.5", "0"),
    "in_vain": ("6.5", "5.5"),
    "beside": ("1.5", "1"),
    "beside_in_calls": ("1.5", "1"),
    "in_a_loop": ("3.5", "3"),
}
"""By program: a bound of its time that holds, and one that does not."""
WAYS = ["by_join", "by_event", "by_queue", "by_items", "by_lock", "by_look", "by_life", "by_time_out"]

slow = pytest.mark.slow


@pytest.mark.parametrize("name", ["works", *[pytest.param(name, marks=slow) for name in BOUNDS if name != "works"]])
def test_a_wait_takes_its_time_and_no_more(name: str) -> None:
    found = explored(f"waits.py:{name}", 2, args=[BOUNDS[name][0]])
    assert found.verdict == "proven", found.report()
    assert explored(f"waits.py:{name}", 2, args=[BOUNDS[name][1]]).verdict == "violated"


@slow
@pytest.mark.parametrize("way", WAYS)
def test_a_thread_that_learns_of_a_sleep_learns_its_time(way: str) -> None:
    found = explored("waits.py:learns", 1, args=[way])
    assert found.verdict == "proven", found.report()


@slow
def test_a_rank_may_fork_processes() -> None:
    assert explored("waits.py:in_processes", 2).verdict == "proven"
