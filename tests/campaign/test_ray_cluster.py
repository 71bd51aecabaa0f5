"""Tests explorations on a cluster, with a pretended Ray. They find the same as one process, even if tasks are lost.
Without Ray, one line says so. `test_ray_nodes` uses Ray itself.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dpsim.campaign import plans, ray_units
from dpsim.campaign.in_order import InOrder
from dpsim.campaign.processes import explore_all
from dpsim.campaign.ray_cluster import NoCluster, RayCluster
from dpsim.campaign.ray_units import RayUnits
from dpsim.campaign.remote import OtherVersion, Source, do_there
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult
from dpsim.contract.world import BackendUnavailable
from dpsim.explore.strategies import frontier
from dpsim.scenario import load_scenario
from dpsim.testing import holds
from tests.campaign import bound_programs, order_programs  # noqa: F401  # register their protocols
from tests.campaign.orders import stable_results
from tests.campaign.pretended_ray import Errors, Pretended, PretendedRay
from tests.cli.commands import dpsim_, write

pytestmark = pytest.mark.runs_once

MODULE = ("--module", "tests.campaign.order_programs")
WORLD = "name: filled\nprotocol: {name: t_fills, params: {ranks: 6}}\n"  # five ranks post to one mailbox


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(plans, "UNIT_STEPS", 100)
    write(Path("x.yaml"), WORLD)


# ---- without Ray


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("auto", "--cluster: Ray is not installed here; install it: pip install -e '.[ray]' in a clone of dpsim"),
        ("http://x", "--cluster: 'http://x' is no cluster; expected auto or ray://HOST:PORT"),
    ],
)
def test_a_cluster_without_ray_is_one_line_of_error(address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = dpsim_("explore", "x.yaml", *MODULE, "--cluster", address)
    assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")


def test_without_the_client_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `ray` alone has no client."""
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setattr("dpsim.campaign.ray_cluster.find_spec", lambda name: None)
    answer = dpsim_("explore", "x.yaml", *MODULE, "--cluster", "ray://head:10001")
    install = "install it: pip install -e '.[ray]' in a clone of dpsim"
    said = f"--cluster: ray://head:10001 needs the client of Ray; {install}"
    assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")


def test_holds_needs_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match="Ray is not installed here; install it: "):
        holds(load_scenario(Path("x.yaml")), cluster="auto")


def test_holds_explores_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = PretendedRay()
    monkeypatch.setattr(RayCluster, "at", lambda *_: nullcontext(Pretended(ray)))
    assert holds(load_scenario(Path("x.yaml")), cluster="auto", strategy="dpor").verdict == "proven"
    assert ray.tasks > 1


ONE_UNIT, ALL_UNITS = 1e-9, 1e9
"""Seconds that a task may take. With these values the number of units of a task does not depend on a clock."""

BOUNDED = "within preemptions=2"
"""A strategy with many units."""


def found_with(ray: PretendedRay, by: str = "dpor", **more: Any) -> Any:
    scenario = load_scenario(Path("x.yaml"))
    sources = [Source.of(scenario, None)]
    units = RayUnits(ray, sources, width=2)
    return explore_all([Subject.of(scenario)], by, schedules=10**6, elsewhere=units, **more)[0]


def test_lost_tasks_are_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost tasks and results in another order do not change the outcome. A unit that is lost four times makes
    no proof.
    """
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ONE_UNIT)
    (uncut,) = explore_all([Subject.of(load_scenario(Path("x.yaml")))], "dpor", schedules=10**6)
    assert (uncut.verdict, len(uncut.exploration.classes)) == ("proven", 120)
    assert stable_results(found_with(PretendedRay())) == stable_results(uncut)
    sound, losing = PretendedRay(), PretendedRay(frozenset({2, 3, 5, 9}))
    assert stable_results(found_with(sound)) == stable_results(found_with(losing)) == stable_results(uncut)
    assert losing.tasks == sound.tasks + 4
    lost = found_with(PretendedRay(frozenset(range(9, 10**6))))
    assert lost.verdict == "lost"
    assert lost.exploration.lost.startswith("4 processes ended over the same ")


def test_units_that_are_short_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short units share a task, so there are fewer tasks with the same outcome, even if such a task is lost."""
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ONE_UNIT)
    monkeypatch.setattr(frontier, "LEAST", 2)
    alone = PretendedRay()
    uncut = stable_results(found_with(alone, BOUNDED))
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ALL_UNITS)
    together, losing = PretendedRay(), PretendedRay(frozenset({4, 6}))
    assert stable_results(found_with(together, BOUNDED)) == stable_results(found_with(losing, BOUNDED)) == uncut
    assert 2 * together.tasks < alone.tasks
    assert losing.tasks > together.tasks + 2, "each of its units is a task again"


def keeps_the_rest(self: RayUnits, ref: Any, plans: Any) -> Any:
    """A faulty twin: units that a task did not do after its first failure are not given out again."""
    units = self._under_way[ref]
    self._under_way[ref] = units[: len(ref.answer)]
    return ANSWERS(self, ref, plans)


ANSWERS = RayUnits._answers


def test_a_task_ends_at_its_first_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task returns at its first failure, and the exploring process gives out its other units again. The faulty twin
    keeps them.
    """
    write(Path("x.yaml"), "name: x\nprotocol: {name: t_misses, params: {ranks: 5}}\n")
    scenario = load_scenario(Path("x.yaml"))
    monkeypatch.setattr(frontier, "LEAST", 2)
    (uncut,) = explore_all([Subject.of(scenario)], BOUNDED, schedules=10**6, stop_at_first=False)
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ALL_UNITS)
    assert stable_results(found_with(PretendedRay(), BOUNDED, stop_at_first=False)) == stable_results(uncut)
    assert uncut.verdict == "violated"
    monkeypatch.setattr(RayUnits, "_answers", keeps_the_rest)
    assert stable_results(found_with(PretendedRay(), BOUNDED, stop_at_first=False)) != stable_results(uncut)


def test_a_node_without_dpsim_is_no_loss() -> None:
    """A node without dpsim cannot load the unit and never will, so dpsim reports an error instead of a loss."""
    with pytest.raises(
        BackendUnavailable, match="the same version of dpsim has to be installed on each: the node is gone"
    ):
        found_with(PretendedRay(frozenset({1}), Errors.RayTaskError))


def forgets(self: InOrder, unit: Unit, how: str, most: int = 1) -> None:
    """A faulty twin: a lost unit counts as one without findings."""
    from dpsim.explore import Exploration

    self.take(UnitResult(unit, Exploration(), [], True, False, False, unit.state, 0.0))


def test_a_plan_that_forgets_lost_units_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InOrder, "lost", forgets)
    found = found_with(PretendedRay(frozenset({2})))
    assert (found.verdict, len(found.exploration.classes) < 120) == ("proven", True)


def test_another_version_is_refused() -> None:
    source = Source.of(load_scenario(Path("x.yaml")), None)._replace(dpsim="0" * 64)
    assert isinstance(do_there(source, Unit(0, "dpor", 0, 1, True)), OtherVersion)


def test_the_modules_of_a_program_travel() -> None:
    from dpsim.campaign.remote import sources_of

    files = sources_of([order_programs.__name__])
    assert files["tests/campaign/order_programs.py"] == Path(order_programs.__file__).read_bytes()
    assert "tests/__init__.py" in files
    assert not any(name.startswith("dpsim/") for name in files)
