"""Elsewhere: one more run of a program that holds, whose ranks are as different as processes of machines may be.

    looked = looked_elsewhere(subject)      # `Program.elsewhere` says what differs
    looked.finding                          # NONDETERMINISM:REPEAT with the first record that differs, or None

A process draws the seed of its hashes anew. So two ranks may iterate over one set in two orders. The simulation gives
all ranks one seed, because a second interpreter is dear. After all schedules have held, it runs the default one again
with ranks that differ. Only a run that breaks something is a finding: ranks may differ without harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dpsim.campaign.subject import Subject
from dpsim.checks import nondeterminism
from dpsim.checks.finding import Finding
from dpsim.checks.judge import switch_off
from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.backend import SimRun


class Elsewhere(NamedTuple):
    """A run that fails if ranks differ."""

    finding: Finding
    run: SimRun


def looked_elsewhere(subject: Subject) -> Elsewhere | None:
    """Returns the run that fails; None if it holds, or if the program's processes cannot differ. Raises Lost."""
    other = subject.program.elsewhere(subject.prepared)
    if other is None or _off(subject):
        return None
    prepared, differs = other
    try:
        again, findings = _in_order(replace(subject, prepared=prepared))
        if not findings:
            return None
        first, _ = _in_order(subject)
    except CutOff:
        return None
    finding = nondeterminism.elsewhere(first.journals, again.journals, differs, findings[0])
    return Elsewhere(finding, again)


def _off(subject: Subject) -> bool:
    off = subject.switched_off
    return bool(off) and any(switch_off([nondeterminism.of("")], off)[1].values())


def _in_order(subject: Subject) -> tuple[SimRun, Sequence[Finding]]:
    follow = ScheduleReplay((), strict=False, longest=subject.longest)
    follow.begin()
    return subject.run(follow)
