"""Repaired: counts how often a run holds with a change of the named culprit of a drawn world, and of another rank.

    python -m tests.vllm.blame.campaign all 1000 1040 --repaired

A rank that dies, raises or hangs by itself makes no wrong call, so it has no repair and is counted apart. For each
world whose culprit is right, the campaign also accuses another rank of the same site, in the same step. No change of
that rank should suffice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from dpsim.campaign.repaired import Repair, repair_that_holds
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding
from dpsim.contract.ops import KIND
from dpsim.contract.world import Run, World
from dpsim.scenario import scenario_from
from dpsim.sim.backend import SimBackend
from tests.blame.plants import STOPPING
from tests.blame.tables import Row
from tests.vllm.blame.families import FAMILIES

RESULTS = ("holds", "values differ", "either side", "none", "stopped by itself")
"""What the repairs of a culprit give. "values differ": the next finding is about values, because the
inserted call has no contents. "either side": so does a change of the partner's call.
"""


def lines(family: str, seen: Iterable[Row]) -> list[str]:
    """Returns a line for the named culprits that are right, one for those that are wrong, and one for innocents."""
    counts = {name: Counter[str]() for name in ("right", "wrong", "innocent")}
    for row in seen:
        for name, result in results(family, row):
            counts[name][result] += 1
    return [f"  {name:8} " + ", ".join(f"{count[one]} {one}" for one in RESULTS) for name, count in counts.items()]


def results(family: str, row: Row) -> Iterator[tuple[str, str]]:
    """Yields the results for the culprit of a world, and for an innocent rank: right, wrong or innocent, with one of
    `RESULTS`.
    """
    if row.primary is None or row.primary.culprit is None or row.came not in ("right", "other step", "wrong"):
        return
    subject = Subject.of(scenario_from(FAMILIES[family](Random(row.seed))))
    subject = replace(subject, world=replace(subject.world, faults=(row.planted.fault,)))
    run = broken(subject)
    right = "wrong" if row.came == "wrong" else "right"
    if row.planted.kind in STOPPING or row.primary.klass.startswith(("CRASH", "DEATH")):
        yield right, "stopped by itself"
    else:
        yield right, result_of(repair_that_holds(subject, run, row.primary))
    if row.came == "right" and (accused := innocent(subject.world, row)) is not None:
        yield "innocent", result_of(repair_that_holds(subject, run, accused))


def broken(subject: Subject) -> Run:
    """Returns the run of a world with its fault, without the records of it."""
    program, prepared = subject.fresh()()
    run = SimBackend().run_program(subject.world, program, prepared)
    return replace(run, journals=[[raw for raw in own if raw[KIND] != "injected"] for own in run.journals])


def innocent(world: World, row: Row) -> Finding | None:
    """Returns the finding of a world with the first rank as its culprit that has no fault, or None."""
    assert row.primary is not None
    assert row.primary.culprit is not None
    others = [rank for rank in range(world.size) if rank != row.planted.fault.rank]
    return replace(row.primary, culprit=replace(row.primary.culprit, rank=others[0])) if others else None


def result_of(repair: Repair | None) -> str:
    """Returns which of `RESULTS` a repair is."""
    if repair is None:
        return "none"
    if len(repair.faults) == 2:
        return "either side"
    return "values differ" if repair.left else "holds"
