"""Tests that a run holds with a repaired call of its culprit, and not with one of an innocent rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.campaign import repaired
from dpsim.campaign.repaired import Repair, repair_that_holds
from dpsim.campaign.subject import Subject
from dpsim.checks.blame import repairs as changes
from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Run
from dpsim.diagnose.words import text
from dpsim.sim.backend import SimBackend
from tests.programs import world_of


class Sums(Program[Any]):
    """Four steps of a sum and a barrier."""

    uses = False
    """Whether the ranks decide on the sum."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        group = rank.host("all")
        for rank.step in range(4):
            total = await group.all_reduce(np.full(2, 1, np.int32), site="sum")
            if self.uses:
                rank.decide("total", int(total.sum()), "all")
            await group.barrier(site="next")


class Uses(Sums):
    uses = True


SKIP = Fault("skip", 1, At("sum", 2))
REPEAT = Fault("repeat", 1, At("sum", 2))
ALTER = Fault("alter", 1, At("sum", 2), {"count": 3})


def failing(*faults: Fault, ranks: int = 3, program: type[Sums] = Sums) -> tuple[Subject, Run, Finding]:
    subject = Subject(world_of(ranks, ["all"], faults=faults), program())
    run = SimBackend().run_program(subject.world, program(), None)
    return subject, run, judge(subject.world, run)[0]


def repair(*faults: Fault, accused: int | None = None, **more: Any) -> Repair | None:
    subject, run, finding = failing(*faults, **more)
    assert finding.culprit is not None
    if accused is not None:
        finding = replace(finding, culprit=replace(finding.culprit, rank=accused))
    return repair_that_holds(subject, run, finding)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (SKIP, "insert", "with all_reduce sum made by rank 1 in step 2, the run holds"),
        (REPEAT, "skip", "without sum[3] of rank 1, the run holds"),
        (ALTER, "alter", "with count 2 in sum[2] of rank 1, the run holds"),
    ],
    ids=["skip", "repeat", "alter"],
)
def test_the_run_holds_with_a_repair_of_its_culprit(fault: Fault, kind: str, said: str) -> None:
    found = repair(fault)
    assert found is not None
    assert [one.kind for one in found.faults] == [kind]
    assert text(found.fact) == said


@pytest.mark.parametrize("accused", [0, 2])
@pytest.mark.parametrize("fault", [SKIP, REPEAT, ALTER], ids=["skip", "repeat", "alter"])
def test_it_does_not_hold_with_one_of_an_innocent_rank(fault: Fault, accused: int) -> None:
    assert repair(fault, accused=accused) is None


def test_the_innocent_one_of_two_does_not_repeat_the_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run would hold if rank 0 left the call out as well, but rank 0 makes it in each other step."""
    assert repair(SKIP, accused=0, ranks=2) is None
    monkeypatch.setattr(changes, "restores", lambda *_: True)  # the faulty twin
    found = repair(SKIP, accused=0, ranks=2)
    assert found is not None
    assert (found.faults[0].kind, found.faults[0].rank) == ("skip", 0)


def test_a_repair_names_the_finding_about_values_that_follows_it() -> None:
    """Rank 1 decides on its own elements, because its program does not get the sum."""
    found = repair(SKIP, program=Uses)
    assert found is not None
    assert found.left.startswith("DISAGREEMENT")


def test_a_repair_of_either_side_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first step nothing shows which number of calls is usual, so a change of either rank may be the repair."""
    first = Fault("skip", 1, At("sum", 0))
    subject, run, finding = failing(first, ranks=2)
    finding = replace(finding, culprit=Culprit(1, 0, "sum", ""))
    run = replace(run, journals=[[raw for raw in own if raw[1] == 0] for own in run.journals])
    found = repair_that_holds(subject, run, finding)
    assert found is not None
    assert [one.rank for one in found.faults] == [1, 0]
    assert text(found.fact).endswith("the run holds: a change of either side helps")
    monkeypatch.setattr(repaired, "partners", lambda *_: [])  # the faulty twin does not ask the other side
    alone = repair_that_holds(subject, run, finding)
    assert alone is not None
    assert len(alone.faults) == 1


def test_a_planted_fault_is_not_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """To leave out the call at which a fault is planted would leave out the fault."""
    alter = Fault("alter", 1, At("sum", 2), {"op": "broadcast"})
    subject, run, finding = failing(alter)
    away = Fault("skip", 1, At("sum", 2))
    monkeypatch.setattr(repaired, "repairs", lambda *_: [away])
    tried: list[Fault] = []

    def tries(again: Subject, *_: Any) -> str:
        tried.append(again.world.faults[-1])
        return ""

    monkeypatch.setattr(repaired, "_left", tries)
    assert repair_that_holds(subject, run, finding) is None
    assert tried == []
    monkeypatch.setattr(repaired, "_takes_away", lambda *_: False)  # the faulty twin
    assert repair_that_holds(subject, run, finding) == Repair((away,))


def test_at_most_twenty_runs_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, run, finding = failing(SKIP, ranks=2)
    made: list[str] = []

    def tries(*_: Any) -> str | None:
        made.append("run")
        return "" if len(made) == repaired.MOST else None

    monkeypatch.setattr(repaired, "_left", tries)
    many = [Fault("skip", rank, At("sum", number)) for rank in (0, 1) for number in range(99)]
    monkeypatch.setattr(repaired, "repairs", lambda *_: many)
    monkeypatch.setattr(repaired, "partners", lambda *_: [finding])
    assert repair_that_holds(subject, run, finding) is not None
    assert len(made) == 2 * repaired.MOST == 20


class Endless(Sums):
    """Rank 1 goes on after its last sum."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        await super().run(rank, prepared)
        while rank.rank == 1:
            await rank.sleep(1_000, site="again")


def test_a_repaired_run_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the faulty twin the program ends, so the same repair holds."""
    monkeypatch.setattr(repaired, "LOOKS", 10)
    subject, run, finding = failing(SKIP)
    assert repair_that_holds(replace(subject, program=Endless()), run, finding) is None
    assert repair_that_holds(subject, run, finding) is not None
