"""Counts function calls per rank-step and per schedule. A count is equal on every machine with the same Python.

Times depend on the processor: one commit has 0.98 of the baseline's speed on one processor and 0.79 on another. A count
only depends on the code. `sys.setprofile` sees each call of a Python function, each resumption of a coroutine, and each
call of a built-in function. The difference between a run of many steps and a run of few steps is the cost of the steps.

    python -m benchmarks.counts         # prints all counts as JSON, from a process with a fixed hash seed

>>> calls(lambda: sorted([2, 1]))       # the lambda, and `sorted`
Calls(python=1, all=2)
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from benchmarks import program
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.judge import judge
from tests.worlds import pipeline, wake_pause

DP, PP, FEW, MANY = 8, 2, 5, 45
EVERY = 256
"""The benchmark explores one in this number of the 6,768 small worlds of the pipeline."""


class Calls(NamedTuple):
    """The number of calls of Python functions, and of all functions."""

    python: float
    all: float


def calls(work: Callable[[], Any]) -> Calls:
    """Counts the calls during `work`, without those of the garbage collector."""
    found = {"call": 0, "c_call": 0}

    def look(frame: Any, event: str, argument: object) -> None:
        if event in found:
            found[event] += 1

    gc.collect()
    usual = gc.isenabled()
    gc.disable()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        if usual:
            gc.enable()
    return Calls(found["call"], found["call"] + found["c_call"] - 1)  # the last call only stops the profiler


def rank_step(way: Callable[[int], Any], ranks: int, few: int = FEW, many: int = MANY) -> Calls:
    """Returns the calls of one rank in one step. `way`: runs a number of steps."""
    way(few), way(many)  # the first run initializes caches
    short, long = calls(lambda: way(few)), calls(lambda: way(many))
    return Calls(*((b - a) / (ranks * (many - few)) for a, b in zip(short, long, strict=True)))


def simulated(steps: int) -> None:
    program.simulate(DP, PP, steps)


def judged(steps: int) -> None:
    found = judge(program.world(DP, PP), program.simulate(DP, PP, steps))
    assert not found, found


def proven(case: Any) -> Explored:
    found = explore_subject(Subject(case.world, case.program, case.args), "dpor")
    assert found.verdict == "proven", found.verdict
    return found


def exploring(cases: list[Any]) -> tuple[int, float]:
    """Returns the number of schedules of some worlds, each proven, and the calls per schedule."""
    schedules = sum(proven(case).exploration.runs for case in cases)
    return schedules, calls(lambda: [proven(case) for case in cases]).all / schedules


def counted() -> dict[str, float]:
    """Returns all counts, with the names that the floors use."""
    run, with_checks = rank_step(simulated, DP * PP), rank_step(judged, DP * PP)
    wake, wake_calls = exploring([wake_pause.case(2, 3)])
    small, small_calls = exploring([pipeline.case(one) for one in islice(pipeline.small_scopes(), 0, None, EVERY)])
    return {
        "python calls a rank-step": run.python,
        "calls a rank-step": run.all,
        "calls a rank-step, judged": with_checks.all,
        "schedules, wake world 2x3": wake,
        "calls a schedule, wake world 2x3": wake_calls,
        "schedules, small pipeline worlds": small,
        "calls a schedule, small pipeline worlds": small_calls,
    }


def in_a_process() -> dict[str, float]:
    """Returns all counts of a new process, in which a fixed hash seed makes the order of sets equal."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    what = [sys.executable, "-m", "benchmarks.counts"]
    ended = subprocess.run(what, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(counted()))
