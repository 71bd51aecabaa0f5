"""Tests docs/gpus.md, which lists for each scenario whether gloo repeats the records of the simulation.

    row of the page                                      what is compared here
    equal, record by record                              a run without gates
    the same verdict; equal ... at gates only            a run whose gates repeat the simulation's message order
    the same verdict; its records differ ...             verdicts
    refused ...                                          the error of a scenario that only the simulation runs

A gate delays a racing call of a real process until its turn in a recorded run. The README counts the scenarios of each
row, and a test compares its numbers with the page.
"""

from __future__ import annotations

import re

import pytest

from dpsim.runner import Result, run_scenario
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import bundled_scenarios, scenario_path
from dpsim.scenario.to_world import OnlySimulated
from dpsim.testing import same_on
from dpsim.trace import Trace, compare
from tests import ROOT

PAGE = (ROOT / "docs" / "gpus.md").read_text()
ROWS = {
    what: re.findall(r"`(\w+)`", names) for names, what in re.findall(r"^\| (`.*`) \| (.*) \|$", PAGE, re.MULTILINE)
}
EQUAL, AT_GATES, THREADS, REFUSED = [
    next(names for what, names in ROWS.items() if words in what)
    for words in ("equal, record by record", "only with gates", "its threads race", "refused")
]
gloo = [pytest.mark.slow, pytest.mark.xdist_group("gloo")]


def test_the_page_names_each_scenario_once() -> None:
    named = sorted([*EQUAL, *AT_GATES, *THREADS, *REFUSED])
    assert named == sorted(name for name in bundled_scenarios() if "/" not in name)


def test_the_readme_counts_them() -> None:
    limits = (ROOT / "README.md").read_text().partition("\n## Limits\n")[2]
    counts = [int(number) for number in re.findall(r"\d+", limits.partition("On gloo")[2].partition("\n*")[0])]
    one = [*EQUAL, *AT_GATES, *THREADS, *REFUSED]
    assert counts == [len(EQUAL), len(one), len(AT_GATES), len(THREADS), len(REFUSED)]


def both(name: str) -> tuple[Result, Result]:
    pytest.importorskip("torch")
    scenario, path = load_scenario(scenario_path(name)), scenario_path(name)
    real, simulated = run_scenario(scenario, "gloo", base=path.parent), run_scenario(scenario, base=path.parent)
    assert (real.verdict, real.unmet) == (simulated.verdict, None)
    return real, simulated


def difference(name: str) -> str:
    real, simulated = both(name)
    return str(compare(Trace.of(simulated.run, "sim"), Trace.of(real.run, "gloo")) or "")


@pytest.mark.parametrize("name", [pytest.param(name, marks=gloo) for name in EQUAL])
def test_each_scenario_of_the_page_is_equal_on_gloo(name: str) -> None:
    assert difference(name) == ""


@pytest.mark.parametrize("name", [pytest.param(name, marks=gloo) for name in AT_GATES])
def test_equal_at_gates(name: str) -> None:
    pytest.importorskip("torch")
    assert both(name)
    again = same_on(load_scenario(scenario_path(name)), "gloo", schedules=2)
    assert len(again) == (1 if name == "whole_engine_split" else 2), "a random schedule of the split one is cut off"


@pytest.mark.slow
@pytest.mark.xdist_group("gloo")
def test_a_difference_is_found() -> None:
    """Faulty twin: the real run of another scenario differs from the simulation."""
    (real, _), (_, simulated) = both("skip_expert"), both("quickstart")
    assert compare(Trace.of(simulated.run, "sim"), Trace.of(real.run, "gloo"))


@pytest.mark.parametrize("name", [pytest.param(name, marks=gloo) for name in THREADS])
def test_the_verdicts_are_the_same(name: str) -> None:
    assert both(name)


@pytest.mark.parametrize("name", REFUSED)
def test_gloo_refuses_each_scenario_that_only_the_simulation_can_run(name: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(OnlySimulated):
        run_scenario(load_scenario(scenario_path(name)), "gloo")
