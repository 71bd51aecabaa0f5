"""Tests a bounded search in units, the parts of an exploration that processes share. It finds the same counts, classes
and failures as one search, with any number of processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import plans
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import Keeper, explore_all
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import UnitResult
from dpsim.campaign.work import UnitFiles, WorkFolder
from dpsim.explore.strategies import frontier
from dpsim.explore.strategies.frontier import RunRecord, SharedFrontier
from dpsim.explore.strategies.within import Within
from dpsim.scenario import scenario_from
from tests.campaign import bound_programs  # noqa: F401  # registers its protocols
from tests.campaign.orders import HEAD, orders
from tests.worlds.cases import CASES

pytestmark = pytest.mark.runs_once

MISSES = {"name": "misses", "protocol": {"name": "t_misses", "params": {"ranks": 4}}}
NAMES = ["misses", "orders", "wake_pause 2x1", "kill host 2x4 bug", "dp_wave_skip 2x1", "graph recv 2"]
BOUNDS = ["late_deliveries=0", "late_deliveries=1", "preemptions=1", "preemptions=1 late_deliveries=1"]


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "UNIT_STEPS", 40)
    monkeypatch.setattr(frontier, "LEAST", 2)


def subject(name: str) -> Subject:
    if name == "misses":
        return Subject.of(scenario_from(MISSES))
    if name == "orders":
        return orders(3, 2)
    case = CASES[name]
    return Subject(case.world, case.program, case.args, case.tolerated, name)


def common_results(found: Explored) -> Any:
    """Returns the results on which one search and a search in units agree. Classes have other names, so only their
    number counts.
    """
    one = found.exploration
    failures = {(each.fingerprint, each.seen) for each in one.failures.values()}
    return found.verdict, one.runs, one.redundant, one.cut, len(one.classes), sum(one.fresh), failures


def in_units(name: str, bounds: str, jobs: int = 1, **more: Any) -> Explored:
    return explore_all([subject(name)], f"within {bounds}", jobs=jobs, schedules=10**6, stop_at_first=False, **more)[0]


def whole(name: str, bounds: str) -> Any:
    return common_results(explore_subject(subject(name), f"within {bounds}", schedules=10**6, stop_at_first=False))


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_units_find_what_one_search_does(name: str, bounds: str) -> None:
    found = in_units(name, bounds)
    assert common_results(found) == whole(name, bounds)
    assert found.how_far is not None
    assert found.how_far.units > 1 or found.exploration.runs == 1


def test_two_processes_find_what_one_search_does() -> None:
    """Two processes find the same as one search, though each process numbers the labels differently."""
    for name in NAMES[:3]:
        assert common_results(in_units(name, BOUNDS[-1], jobs=2)) == whole(name, BOUNDS[-1])


class Cut(Exception):
    pass


def test_a_cut_loses_a_unit_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration stops after a third of the units, and another one resumes it with two processes. It does the
    remaining units only.
    """
    all_units = in_units("misses", BOUNDS[1]).how_far
    assert all_units is not None
    keep, kept = UnitFiles.keep, list[int]()

    def cut(files: UnitFiles, result: UnitResult) -> None:
        if len(kept) == all_units.units // 3:
            raise Cut
        kept.append(result.unit.number)
        keep(files, result)

    with monkeypatch.context() as patch, WorkFolder.begin(tmp_path, HEAD) as work:
        patch.setattr(UnitFiles, "keep", cut)
        with pytest.raises(Cut):
            in_units("misses", BOUNDS[1], store=work.of(["misses"]))
    before = {one.name: one.stat().st_mtime_ns for one in (tmp_path / "units").iterdir()}
    assert len(before) == all_units.units // 3
    with WorkFolder.resume(tmp_path, HEAD) as work:
        store: Keeper = work.of(["misses"])
        assert common_results(in_units("misses", BOUNDS[1], 2, store=store)) == whole("misses", BOUNDS[1])
    after = {one.name: one.stat().st_mtime_ns for one in (tmp_path / "units").iterdir()}
    assert after.items() >= before.items()
    assert len(after) == all_units.units


# ---- faulty twins


def loses_a_branch(self: SharedFrontier, record: RunRecord) -> bool:
    """A faulty twin: at a place with several choices not yet taken, it forgets the last."""
    places = [one._replace(others=one.others[:-1] if len(one.others) > 1 else one.others) for one in record.places]
    return ADD(self, record._replace(places=places))


def counts_twice(self: SharedFrontier, record: RunRecord) -> bool:
    """A faulty twin: what two units both reached first runs twice."""
    for place in record.places:
        self._frontier.add(record.trunk, place)
    return True


def by_number(self: Within, bit: int, causes: int) -> int:
    """A faulty twin: the search distinguishes steps by the numbers of their labels, which differ between units."""
    return hash((bit, causes))


ADD = SharedFrontier._add


@pytest.mark.parametrize(
    ("kind", "method", "twin"),
    [
        (SharedFrontier, "_add", loses_a_branch),
        (SharedFrontier, "_add", counts_twice),
        (Within, "_digest_of", by_number),
    ],
)
def test_units_with_a_mistake_are_found(kind: Any, method: str, twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [whole(name, BOUNDS[-1]) for name in NAMES[:3]]
    monkeypatch.setattr(kind, method, twin)
    assert [common_results(in_units(name, BOUNDS[-1])) for name in NAMES[:3]] != expected
