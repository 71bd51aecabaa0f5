"""Which limit ended a search, by how the search ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.campaign.cut_short import Cuts, Limit, limit_of
from dpsim.explore import Exploration
from dpsim.scenario import Scenario, scenario_from
from tests.cli import protocols  # noqa: F401  # registers t_look

Rule = Callable[[Exploration, str, int, bool], Limit]

ENDS: list[tuple[Exploration, str, bool, Limit]] = [
    (Exploration("proven", runs=10), "dpor", False, ""),
    (Exploration("violated", runs=10), "dpor", False, ""),
    (Exploration("vacuous", runs=1), "dpor", True, ""),
    (Exploration("sampled", runs=10), "dpor", True, "schedules"),
    (Exploration("sampled", runs=9), "dpor", True, "budget"),
    (Exploration("sampled", runs=20), "portfolio", False, "schedules"),
    (Exploration("sampled", runs=10), "portfolio", True, "budget"),
    (Exploration("sampled", runs=10, unfinished="no death"), "portfolio", False, "schedules"),
    (Exploration("bounded", runs=10, within="no death", unfinished="at most 1 death"), "dpor", False, "schedules"),
    (Exploration("bounded", runs=9, within="at most 1 death"), "dpor", False, ""),
    (Exploration("bounded", runs=9, cut=2), "dpor", False, "length"),
    (Exploration("sampled", runs=1), "fifo", False, "strategy"),
    (Exploration("sampled", runs=1, outgrown=True), "dpor", True, "memory"),
]


def named(name: str) -> Scenario:
    return scenario_from({"name": name, "protocol": {"name": "t_look", "params": {"ranks": 2}}})


def wrong(rule: Rule) -> list[int]:
    """The cases in which a rule names another limit."""
    return [at for at, (found, strategy, timed, limit) in enumerate(ENDS) if rule(found, strategy, 10, timed) != limit]


def test_each_end_has_its_limit() -> None:
    assert wrong(limit_of) == []


def test_a_portfolio_runs_twice_as_many_schedules() -> None:
    """The twin counts them once, and another one never looks at the bounds of a search."""
    assert wrong(lambda found, strategy, most, timed: limit_of(found, "dpor", most, timed)) == [6]

    def without_bounds(found: Exploration, strategy: str, most: int, timed: bool) -> Limit:
        return limit_of(Exploration(found.verdict, found.runs, cut=found.cut), strategy, most, timed)

    assert wrong(without_bounds) == [7, 8, 12]


def test_each_limit_has_its_first_world() -> None:
    worlds = [named(f"w{number}") for number in range(5)]
    limits: list[Limit] = ["", "schedules", "length", "schedules", ""]
    cuts = Cuts()
    for number, (limit, world) in enumerate(zip(limits, worlds, strict=True), 1):
        cuts.add(limit, number, world, Exploration(bounds={"9 steps": None}))
    assert [(one.limit, one.worlds, one.first, one.scenario.name) for one in cuts.all()] == [
        ("schedules", 2, 2, "w1"),
        ("length", 1, 3, "w2"),
    ]
    assert cuts.all()[1].bound == "9 steps"
    assert [number for number, _ in cuts.all()[0].all] == [2, 4]


@pytest.mark.parametrize("limit", ["schedules", "budget"])
def test_no_world_is_named_twice(limit: Limit) -> None:
    cuts = Cuts()
    cuts.add(limit, 1, named("w"), Exploration())
    assert sum(one.worlds for one in cuts.all()) == 1
