"""The turning of a failure: what to swap so that the run finishes, and the point of no return, in a world at hand.

    turned = turning_of(subject, shown.schedule)        # of a schedule that an exploration found
    turned = turning_in_time(subject)                   # of the run in time, as `dpsim run` makes it

The search is bounded by steps, not by a clock: a long run gets fewer tries. A run in time is followed without time in
the order in which its ops fired. If that run holds, as a run with a passed time-out may, nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.campaign.subject import Subject
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Unended
from dpsim.explore.turning import RUNS, Turning, turning
from dpsim.sim.backend import SimBackend

STEPS = 60_000
"""Steps that all tries together may take. 120 runs of 500 steps are a second or two."""

FEWEST = 8
"""A world in which fewer runs fit is not searched."""


def turning_of(subject: Subject, schedule: Sequence[str]) -> Turning | None:
    """Of a failing schedule; None if it is too long, or if a run along it holds."""
    runs = min(RUNS, STEPS // max(len(schedule), 1))
    if runs < FEWEST:
        return None

    def once(strategy: Strategy) -> bool:
        _, findings = subject.run(strategy)
        return not findings

    try:
        return turning(once, schedule, runs=runs, longest=subject.longest)
    except Unended:  # the machine took something away, or a run is no function of its schedule
        return None


def turning_in_time(subject: Subject) -> Turning | None:
    """Of the run in time."""
    program, prepared = subject.fresh()()
    try:
        run = SimBackend(keep_order=True).run_program(subject.world, program, prepared)
    except Unended:
        return None
    return turning_of(subject, run.order)
