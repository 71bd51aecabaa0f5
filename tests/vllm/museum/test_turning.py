"""Tests exhibits that fail only in some orders: if dpsim swaps the pair of events that it reports, the run finishes."""

from __future__ import annotations

import pytest

from dpsim.campaign.alternatives import turning_of
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Run
from dpsim.diagnose.turning_text import no_return, to_swap
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.explore.turning import turning
from dpsim.scenario import load_scenario
from tests import ROOT
from tests.properties import slow_but

SWAPPED = {
    "coord-latch": 2,
    "dead-rank-all2all": 3,
    "load-off-by-one": 1,
    "m-bt-1": 1,
    "m-el-4-alone": 1,
    "m-el-9": 1,
    "m-el-10": 2,
    "m-el-12": 2,
    "m-st-11": 1,
    "m-st-12": 1,
    "port-toctou": 1,
    "resume-refused": 1,
}
"""By exhibit: how many pairs dpsim must swap to reach the nearest schedule that finishes."""

IN_ANY_ORDER = ("m-el-7", "m-dp-1")
"""Exhibits that fail in each order."""


def failing(name: str) -> tuple[Subject, list[str]]:
    """Returns an exhibit's world, and a schedule in which it fails."""
    file = ROOT / "scenarios" / "museum" / f"{name}.yaml"
    subject = Subject.of(load_scenario(file), file.parent)
    shown = explore_subject(subject, "portfolio", schedules=300).shown[0]
    return subject, list(shown.schedule)


def along(subject: Subject, schedule: list[str]) -> tuple[Run, bool]:
    """Replays a schedule exactly. Returns the run, and whether it holds."""
    follow = ScheduleReplay(schedule)
    follow.begin()
    run, findings = subject.run(follow)
    follow.end(True)
    return run, not findings


@pytest.mark.parametrize("name", slow_but(SWAPPED, lambda name: name == "m-el-9"))
def test_with_the_pair_swapped_the_run_finishes(name: str) -> None:
    subject, schedule = failing(name)
    found = turning_of(subject, schedule)
    assert found is not None
    run, holds = along(subject, schedule)
    assert not holds
    assert along(subject, list(found.schedule))[1]
    assert len(found.swaps) == SWAPPED[name]
    place, other = ({word: at for at, word in enumerate(words)} for words in (schedule, found.schedule))
    if len(found.swaps) == 1:
        one, two = found.swaps[0]
        assert place[one] < place[two]
        assert other[two] < other.get(one, len(other))
    assert found.point in place
    assert no_return(run, found.point, found.after).endswith("16 random schedules from there fail, too")
    assert " before " in to_swap(run, found.swaps)


@pytest.mark.parametrize("name", IN_ANY_ORDER)
def test_a_mistake_that_no_order_avoids_has_no_pair(name: str) -> None:
    subject, schedule = failing(name)
    found = turning_of(subject, schedule)
    assert found is None or not found.finishes


@pytest.mark.slow
def test_a_pair_that_is_not_swapped_does_not_finish() -> None:
    """Faulty twin: a search that counts all runs as failed finds no pair whose swap makes the run finish."""
    subject, schedule = failing("m-el-9")

    def once(strategy: Strategy) -> bool:
        subject.run(strategy)
        return False

    found = turning(once, schedule)
    assert found is not None
    assert not found.finishes
