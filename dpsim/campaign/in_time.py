"""In time: judges the timed run of a scenario, as `dpsim run` makes it, before an exploration searches schedules.

    failure = failure_in_time(subject, tick)        # None: the run holds, or could not be made whole

An exploration assumes that only sleeps and planted delays outlast a timeout, but a timed run has costs as well. If it
fails, it is the evidence, unless the search finds a failing schedule, too. After `TICKS` calls of its progress
function, its result is unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsim.campaign.subject import Subject, identity, kept
from dpsim.checks.judge import judge, switch_off
from dpsim.contract.schedule import OutOfTime
from dpsim.contract.world import Lost, Unended
from dpsim.explore import Failure, Problem
from dpsim.sim.backend import SimBackend

TICKS = 4_000
"""The largest number of progress calls: about a million ops."""


class _LongEnough(Exception):
    """Stops a timed run that takes longer than a search would."""


def failure_in_time(subject: Subject, tick: Callable[[int], None] = lambda step: None) -> Failure | None:
    """Returns what fails in the timed run, or None. Calls `tick` now and then. Raises Lost and OutOfTime."""
    looks = 0

    def look(step: int) -> None:
        nonlocal looks
        looks += 1
        if looks > TICKS:
            raise _LongEnough
        tick(step)

    program, prepared = subject.fresh()()  # the search needs an instance that no run has used
    try:
        run = kept(SimBackend().run_program(subject.world, program, prepared, look))
    except _LongEnough:
        return None
    except Unended as error:
        if isinstance(error, Lost | OutOfTime):
            raise
        return None
    off = subject.switched_off
    findings = judge(subject.world, run, off)
    findings = switch_off(findings, off)[0] if off else findings
    if not findings:
        return None
    problem = Problem(findings[0].klass, identity(findings[0]), evidence=(run, findings))
    return Failure(problem, [], [], 0, "the run in time", in_time=True)
