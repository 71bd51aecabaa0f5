"""Tests that load of the machine causes no verdict. After a first exception, a shorter time limit counts only while the
other workers sleep.
"""

from __future__ import annotations

import os
import time

import pytest

from dpsim.contract.world import World
from real import quiet, watch
from real.backend import TorchBackend
from real.child import Child
from real.quiet import Quiet, busy_ns
from tests.real import programs  # noqa: F401  # registers the test programs

SECOND = 1_000_000_000


@pytest.mark.slow
@pytest.mark.xdist_group("gloo")
@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
def test_a_rank_that_raises_late_has_raised(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that a rank that raises late has raised. The faulty twin counts wall time only, and calls the rank
    blocked.
    """
    pytest.importorskip("torch")
    monkeypatch.setattr(watch, "GRACE_NS", SECOND // 10)
    if busy_ns(os.getpid()) is None:
        pytest.skip("this system does not say how long a thread ran")
    assert backend.run(world, "real_late", {"seconds": 0.4}).ends == ["raised", "raised"]
    monkeypatch.setattr(Child, "busy_ns", lambda child: 0)
    assert backend.run(world, "real_late", {"seconds": 0.4}).ends == ["blocked", "raised"]


class Worked:
    """A worker whose CPU times are those of the list, poll by poll."""

    def __init__(self, *busy: int | None) -> None:
        self._busy = iter(busy)

    def busy_ns(self) -> int | None:
        return next(self._busy)


def test_the_quiet_clock_counts_the_time_that_the_busiest_worker_slept() -> None:
    clock = Quiet([Worked(5, 5), Worked(7, 10)], 100)
    assert clock.ns(120) == 17


def test_the_quiet_clock_stops_on_a_system_without_thread_times(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Quiet([Worked(5, None)], 100).ns(120) == Quiet([Worked(None, 5)], 100).ns(120) == 0
    monkeypatch.setattr(quiet, "SCHEDULER_FILE", "/proc/self/no_such_file")
    assert busy_ns(os.getpid()) is None


def test_a_process_that_computes_is_busy() -> None:
    before, began = busy_ns(os.getpid()), time.process_time()
    if before is None:
        pytest.skip("this system does not say how long a thread ran")
    while time.process_time() < began + 0.02:
        pass
    after = busy_ns(os.getpid())
    assert after is not None
    assert after - before >= 15_000_000
    assert busy_ns(1 << 30) == 0, "a process that has ended was not busy"
