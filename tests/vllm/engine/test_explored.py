"""Explores small groups of engines in all schedules: messages have any delay, and sync points are 2 to 4 steps apart.

A world without a finding proves three things. No wake is lost, because front ends wait for their outputs. No late wake
moves an engine after a pause (the loop asserts invariant I-EL-8). No rank is left behind, because that would be a hang.
The faulty twins are in `dpsim.vllm.museum.engine`. A request that is aborted at once breaks the releases before 0.33.

A command explores the larger world with three engines and two front ends:

    dpsim explore engine_waves_late --strategy dpor --schedules 20000 --budget 10m
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dpsim.vllm.releases import names
from tests.properties import nightly_but
from tests.vllm.engine.group_worlds import WAITS, Control, explored, group

SLOW = pytest.mark.slow
TWO = [1, 2]
"""Requests of one and two steps, at once, one for each of two engines."""
SCHEDULES = {
    **{("0.33", 2): 822, ("0.33", 3): 3260, ("0.33", 4): 8605, ("0.31", 2): 606},
    **{(form, 2): 564 for form in ("0.28", "0.24", "0.14")},
}
"""The number of schedules by form and interval. The test does not check it for other pairs."""
ONE = {"0.33": 4, "0.31": 6, "0.28": 18, "0.24": 18, "0.14": 18}
"""The number of schedules of one request, by form."""


def worlds() -> list[Any]:
    """Returns the forms and intervals. Intervals above 2 have many schedules, so only the nightly suite runs them."""
    return nightly_but(itertools.product(names("engine"), (2, 3, 4)), lambda world: world[1] == 2)


@pytest.mark.parametrize(("form", "interval"), worlds())
def test_two_requests_to_two_engines_are_proven(form: str, interval: int) -> None:
    """Two requests to two engines have no finding in any schedule."""
    found = explored(group(form, requests=TWO, interval=interval), 20_000)
    assert (found.verdict, found.failures) == ("proven", {})
    assert found.runs == SCHEDULES.get((form, interval), found.runs)


@pytest.mark.parametrize("form", names("engine"))
def test_one_request_is_served_in_every_schedule(form: str) -> None:
    """One request has no finding in any schedule."""
    found = explored(group(form, requests=[1], interval=2), 1_000)
    assert (found.verdict, found.failures, found.runs) == ("proven", {}, ONE[form])


IDLE_PAUSES = [("0.33", 1), ("0.33", 2), pytest.param("0.33", 3, marks=SLOW), pytest.param("0.24", 1, marks=SLOW)]


@pytest.mark.parametrize(("form", "interval"), IDLE_PAUSES)
@pytest.mark.parametrize("mode", ["abort", "wait", "keep"])
def test_a_request_during_a_pause_of_an_idle_group_is_served(form: str, interval: int, mode: str) -> None:
    """A request that arrives while all engines are paused is served after the resume."""
    control: Control = [(1, ("PAUSE", mode)), (3, ("UPDATE_WEIGHTS", 1)), (4, ("RESUME",))]
    found = explored(group(form, requests=[(1, 2)], control=control, interval=interval, pieces=WAITS), 150)
    assert found.failures == {}
    assert found.verdict == ("proven" if form == "0.33" else "sampled")


@SLOW
@pytest.mark.parametrize("form", ["0.33", "0.24"])
@pytest.mark.parametrize("mode", ["abort", "wait", "keep"])
def test_a_pause_while_requests_run_has_no_failure(form: str, mode: str) -> None:
    """No finding in random schedules of a pause while requests run.

    A group continues until its last engine has received the pause, so the number of schedules has no bound.
    """
    control: Control = [(1, ("PAUSE", mode)), (3, ("UPDATE_WEIGHTS", 1)), (4, ("RESUME",))]
    requests = [(2, 0), (1, 0), (1, 2)]
    found = explored(group(form, requests=requests, control=control, interval=2, pieces=WAITS), 500, "random")
    assert found.failures == {}


@pytest.mark.slow
@pytest.mark.parametrize("engines", [3])
def test_three_engines_and_two_front_ends_have_no_failure(engines: int) -> None:
    found = explored(group(dp=engines, requests=[1, 2, (1, 1)], interval=2, frontends=2), 100, "random")
    assert found.failures == {}


@SLOW
def test_three_engines_and_two_front_ends_in_order() -> None:
    found = explored(group(dp=3, requests=[1, 2, (1, 1)], interval=2, frontends=2), 2_000)
    assert found.failures == {}


ABORTED_AT_ONCE = [(2, 0, 1)]


@pytest.mark.parametrize("form", ["0.14", "0.24"])
def test_a_first_request_that_is_aborted_at_once_hangs_older_releases(form: str) -> None:
    """In older releases, a first request that is aborted at once hangs the group.

    The coordinator does not wake the engine with the request. But the abort removes the request before its first step,
    so this engine stays idle. The others wait for it in a forward. No report of this bug is known.
    """
    found = explored(group(form, requests=ABORTED_AT_ONCE, interval=2), 100)
    assert any(failure.problem.klass.startswith("HANG:COLLECTIVE") for failure in found.failures.values())


def test_a_first_request_that_is_aborted_at_once() -> None:
    """In release 0.33, the group does not hang, because an engine runs from the moment when the request arrives."""
    assert explored(group(requests=ABORTED_AT_ONCE, interval=2), 100, "random").failures == {}


LATE_WAKE: Control = [(1, ("PAUSE", "keep")), (4, ("RESUME",))]


@SLOW
def test_a_late_wake_across_a_pause_hangs_024() -> None:
    """In release 0.24, a late first request across a pause hangs the group.

    The coordinator receives FIRST_REQ after its wave is over, and starts the next wave. One engine is still paused and
    drops the wake. The other one has resumed, and runs a dummy without its peer.
    """
    found = explored(group("0.24", requests=[(1, 0)], control=LATE_WAKE, interval=1), 500, "random", seed=1)
    assert any(failure.problem.klass.startswith("HANG:COLLECTIVE") for failure in found.failures.values())


@SLOW
def test_033_has_no_late_wake_across_a_pause() -> None:
    """In release 0.33, the engine itself informs the coordinator during the wave, so no wake is late."""
    assert explored(group(requests=[(1, 0)], control=LATE_WAKE, interval=1), 500, "random", seed=1).failures == {}
