"""The run of a world as it is written, with its times: what `dpsim run` makes, judged before any search.

Exploring has no time, so a proof takes for granted that nothing but sleeps and planted delays outlasts a time-out. The
run in time has costs of messages, kernels and collectives as well. Where it breaks something, the world is violated.
This run is the evidence, unless the search finds a schedule that breaks something too.

    failure = failure_in_time(subject, tick)        # None: the run holds, or could not be made whole

Such a run is not made longer than `TICKS` looks at it: then nothing is known of it, and `dpsim run` shows the rest.
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
"""About a million ops."""


class _LongEnough(Exception):
    """The run takes longer than a search would."""


def failure_in_time(subject: Subject, tick: Callable[[int], None] = lambda step: None) -> Failure | None:
    """What is wrong with the run in time. `tick` is called now and then within it. Raises Lost, and OutOfTime."""
    looks = 0

    def look(step: int) -> None:
        nonlocal looks
        looks += 1
        if looks > TICKS:
            raise _LongEnough
        tick(step)

    program, prepared = subject.fresh()()  # the search begins with one that no run has touched
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
