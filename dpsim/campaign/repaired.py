"""Repaired: finds one change of the culprit's calls with which the run holds.

    repair = repair_that_holds(subject, run, findings[0], strategy)       # Repair, or None
    text(repair.fact)           # "with all_reduce dp.agree made by rank 1 in step 5, the run holds"

Real processes cannot do this. The simulation makes the same run again with one change (`dpsim.checks.blame.repairs`).
The culprit makes the call that it left out, leaves out the one that it made too often, or takes its peer's arguments.
The fault that the scenario plants stays. A search makes no such runs: only a report that a user reads does.

A run that holds proves that the change suffices, and not whose fault it is. A rank that obeyed a wrong value of another
rank has a call to change as well. If a change of the partner's call helps, too, the report names both.

An inserted call has no contents, and the program does not get its result. So ranks may decide differently after it. If
all findings after an insertion are of such values, the call is likely the missing one. The same holds if the first one
blames its rank in its step. The sentence names that finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from dpsim.campaign.subject import Subject
from dpsim.checks.blame.repairs import partners, repairs
from dpsim.checks.classes import class_and_detail
from dpsim.checks.finding import Fact, Finding, fact, matches
from dpsim.checks.judge import judge, switch_off
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Fault, Run, Unended, World
from dpsim.sim.backend import SimBackend

MOST = 10
"""The largest number of runs for an actor."""

LOOKS = 1_000
"""A repaired run stops after that number of calls of its progress function, and one for each record of the failing
run.
"""

VALUES = ("DISAGREEMENT", "STALE", "UNDEFINED")
"""Families of findings about values, which an inserted call may cause."""


class _TooLong(Exception):
    """Stops a repaired run that does not end."""


class Repair(NamedTuple):
    """The change of a call with which the run holds. If there are two, the second one changes the call of a partner, so
    neither of them points at a culprit. `left`: the class of the first finding about values after a change, if some are
    left.
    """

    faults: tuple[Fault, ...]
    left: str = ""

    @property
    def ways(self) -> tuple[Fact, ...]:
        """What each run changed."""
        return tuple(map(_way, self.faults))

    @property
    def fact(self) -> Fact:
        """The repair and its effect."""
        if len(self.faults) == 1:
            return fact("repaired", ways=self.ways, left=self.left)
        return fact("repaired_either", ways=self.ways, left=self.left)


def _way(fault: Fault) -> Fact:
    rank, call = fault.rank, str(fault.at)
    if fault.kind == "insert":
        op, site, step = (fault.change[key] for key in ("op", "site", "step"))
        return fact("with_call", op=op, site=site, rank=rank, step=step)
    if fault.kind == "skip":
        return fact("without_call", call=call, rank=rank)
    given = tuple(f"{name} {value}" for name, value in fault.change.items() if value is not None)
    return fact("with_arguments", given=given or ("no root",), call=call, rank=rank)


def repair_that_holds(
    subject: Subject, run: Run, finding: Finding, strategy: Callable[[], Strategy] | None = None
) -> Repair | None:
    """Returns the first repair with which the run holds, or None. `strategy` makes the schedule of the failing run,
    and has to tolerate other steps; None for a timed run.
    """
    world = subject.world
    mine = [fault for fault in repairs(world, run, finding) if not _takes_away(fault, world)]
    found = _first(subject, run, mine[:MOST], strategy)
    if found is None:
        return None
    lists = [repairs(world, run, one) for one in partners(world, run, finding)]
    theirs = [fault for faults in zip_longest(*lists) for fault in faults if fault and not _takes_away(fault, world)]
    other = _first(subject, run, theirs[:MOST], strategy)
    return found if other is None else Repair(found.faults + other.faults, found.left or other.left)


def _first(
    subject: Subject, run: Run, faults: Sequence[Fault], strategy: Callable[[], Strategy] | None
) -> Repair | None:
    """Returns the first repair with which the run holds; else the first one after which only values differ."""
    values = None
    for fault in faults:
        again = replace(subject, world=replace(subject.world, faults=(*subject.world.faults, fault)))
        left = _left(again, fault, strategy, sum(map(len, run.journals)))
        if left == "":
            return Repair((fault,))
        if left is not None:
            values = values or Repair((fault,), left)
    return values


def _takes_away(fault: Fault, world: World) -> bool:
    """Whether a repair would leave out the call at which the scenario plants a fault, and the fault with it."""
    return fault.kind == "skip" and any((one.rank, one.at) == (fault.rank, fault.at) for one in world.faults)


def _left(subject: Subject, fault: Fault, strategy: Callable[[], Strategy] | None, records: int) -> str | None:
    """Returns the class of the first finding of a repaired run, if the values of the inserted call explain it; empty if
    the run holds. None if it fails otherwise.
    """

    looks = 0

    def look(step: int) -> None:
        nonlocal looks
        looks += 1
        if looks > LOOKS + records:
            raise _TooLong

    program, prepared = subject.fresh()()
    try:
        backend = SimBackend() if strategy is None else subject.backend(strategy())
        run = backend.run_program(subject.world, program, prepared, look)
    except (_TooLong, Unended, ValueError):  # the repaired program may refuse what it gets
        return None
    findings = switch_off(judge(subject.world, run, subject.switched_off), subject.switched_off)[0]
    if run.lost or not findings:
        return None if run.lost else ""
    return class_and_detail(findings[0].klass)[0] if _explains(fault, findings) else None


def _explains(fault: Fault, findings: Sequence[Finding]) -> bool:
    """Whether the findings follow from the missing contents of an inserted call. All are about values, or the first one
    blames its rank in its step.
    """
    if fault.kind != "insert":
        return False
    of_values = [any(matches(one.klass, family) for family in VALUES) for one in findings]
    culprit = findings[0].culprit
    own = culprit is not None and (culprit.ranks or (culprit.rank,), culprit.step) == (
        (fault.rank,),
        fault.change["step"],
    )
    return all(of_values) or (of_values[0] and own)
