"""Measures schedules and small worlds per second, including all checks and the work of the explorer.

* The wake/pause protocol with 2 ranks and 3 steps: DPOR explores all its schedules, again and again from the start.
* The pipeline with tokens on a side stream: the explorer proves a sample of its 6,768 small worlds.
* The wake/pause protocol, sampled by one process and by two. This is wall time, because two processes have two CPU
  times.

The worlds are those of the tests (`tests/worlds`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from benchmarks.measure import Spread, seconds, spread
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.files import SHARE
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from tests.worlds import pipeline, wake_pause

EXPLORATIONS, EVERY, SAMPLED = 20, 16, 6_000


class Explored(NamedTuple):
    """Complete schedules per second, and small worlds per second. `speed_up`: the factor for two processes; None on one
    core.
    """

    schedules: Spread
    worlds: Spread
    speed_up: Spread | None


def subject(case: Any) -> Subject:
    return Subject(case.world, case.program, case.args)


def proofs() -> int:
    """Proves the world repeatedly, and returns the number of schedules."""
    wake, runs = subject(wake_pause.case(2, 3)), 0
    for _ in range(EXPLORATIONS):
        found = explore_subject(wake, "dpor")
        assert found.verdict == "proven"
        runs += found.exploration.runs + found.exploration.repeated
    return runs


def small_worlds() -> int:
    """Proves the small worlds, and returns their number."""
    scopes = list(islice(pipeline.small_scopes(), 0, None, EVERY))
    for number, scope in enumerate(scopes):
        # `dpsim explore --all-up-to` repeats the same share of worlds.
        small = replace(subject(pipeline.case(scope)), repeats=number % SHARE == 0)
        assert explore_subject(small, "dpor").verdict == "proven"
    return len(scopes)


def sampled(jobs: int) -> float:
    """Returns the wall seconds of a sample with `jobs` processes."""
    begun = time.perf_counter()
    (found,) = explore_all([subject(wake_pause.case(3, 3))], "random", jobs=jobs, schedules=SAMPLED)
    assert found.exploration.runs == SAMPLED
    return time.perf_counter() - begun


def rate(work: Callable[[], int], repetitions: int) -> Spread:
    """Returns how often `work` succeeds per second of CPU time."""
    count = work()
    return spread([count / seconds(work) for _ in range(repetitions)])


def measure(repetitions: int) -> Explored:
    cores = len(os.sched_getaffinity(0))
    pairs = [(sampled(1), sampled(2)) for _ in range(max(3, repetitions // 2))] if cores > 1 else []
    return Explored(
        schedules=rate(proofs, repetitions),
        worlds=rate(small_worlds, repetitions),
        speed_up=spread([one / two for one, two in pairs]) if pairs else None,
    )
