"""Elsewhere: further runs of a program that holds, whose ranks are as different as processes of machines may be.

    look_elsewhere(subject, found)      # `Program.elsewhere` says what differs
    found.verdict                       # "violated", if that run fails; its finding is NONDETERMINISM:REPEAT

A process draws the seed of its hashes anew, so two ranks may iterate over one set in two orders. In the simulation all
ranks have one seed, because a second interpreter is dear. After all schedules have held, the default one runs again
with ranks that differ. Only a run that breaks something is a finding: ranks may differ without harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpsim.campaign.subject import Subject, identity
from dpsim.checks import nondeterminism
from dpsim.checks.finding import Finding
from dpsim.checks.judge import switch_off
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Lost, Run
from dpsim.explore import Exploration, Failure, Problem
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.backend import SimRun


def look_elsewhere(subject: Subject, found: Exploration) -> None:
    """Adds a failure to what an exploration found, if nothing else failed, and the run whose ranks differ does."""
    if found.failures or found.lost or not found.fresh or found.vacuous:
        return
    for prepared, differs in () if _off(subject) else subject.program.elsewhere(subject.prepared):
        if not found.failures and not found.lost:
            _look(subject, found, prepared, differs)


def _look(subject: Subject, found: Exploration, prepared: Any, differs: str) -> None:
    try:
        again, findings = _in_order(replace(subject, prepared=prepared))
        if not findings:
            return
        first, _ = _in_order(subject)
    except CutOff:
        return
    except Lost as error:
        found.lost, found.verdict = str(error), "lost"
        return
    finding = nondeterminism.elsewhere(first.journals, again.journals, differs, findings[0])
    add_failure(found, finding, again, "a run whose ranks differ")


def add_failure(found: Exploration, finding: Finding, run: Run | None, by: str) -> None:
    """Adds a failure whose evidence is a run, and not a schedule. `by`: what found it."""
    one = Problem(finding.klass, identity(finding), evidence=(run, [finding]))
    found.failures[one.what] = Failure(one, [], [], found.runs, by)
    found.verdict = "violated"


def _off(subject: Subject) -> bool:
    off = subject.switched_off
    return bool(off) and any(switch_off([nondeterminism.of("")], off)[1].values())


def _in_order(subject: Subject) -> tuple[SimRun, Sequence[Finding]]:
    follow = ScheduleReplay((), strict=False, longest=subject.longest)
    follow.begin()
    return subject.run(follow)
