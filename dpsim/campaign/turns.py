"""Turns: finds which events to swap so that a failing run finishes, and the point after which every run fails.

    turned = turning_of(subject, shown.schedule)        # of a schedule that an exploration found
    turned = turning_in_time(subject)                   # of the run in time, as `dpsim run` makes it

Each try is one run with some steps of the failing schedule in another order. The number of steps of all tries is
bounded, so a long run gets fewer tries. For a timed run, the tries follow the order in which its ops executed, without
time. If the untimed run does not fail, for example because a timeout mattered, the result is None.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.campaign.subject import Subject
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Unended
from dpsim.explore.turning import RUNS, Turning, turning
from dpsim.sim.backend import SimBackend

STEPS = 60_000
"""The largest number of steps of all tries together. 120 runs of 500 steps take a second or two."""

FEWEST = 8
"""If fewer tries than this are possible, there is no search."""


def turning_of(subject: Subject, schedule: Sequence[str]) -> Turning | None:
    """Returns the result for a failing schedule; None if it is too long, or if its run does not fail."""
    runs = min(RUNS, STEPS // max(len(schedule), 1))
    if runs < FEWEST:
        return None

    def once(strategy: Strategy) -> bool:
        _, findings = subject.run(strategy)
        return not findings

    try:
        return turning(once, schedule, runs=runs, longest=subject.longest)
    except Unended:  # the machine cannot run it, or the schedule does not determine the run
        return None


def turning_in_time(subject: Subject) -> Turning | None:
    """Returns the result for the timed run."""
    program, prepared = subject.fresh()()
    try:
        run = SimBackend(keep_order=True).run_program(subject.world, program, prepared)
    except Unended:
        return None
    return turning_of(subject, run.order)
