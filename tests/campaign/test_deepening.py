"""Tests explorations with bounds on late messages, deaths or early time-outs: each world here holds within a bound, and
breaks one beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import deepening
from dpsim.campaign.bounds import Bounds
from dpsim.campaign.deepening import explore_each
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.files import Options
from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario, load_scenario
from tests.campaign import bound_programs, swarm_programs  # noqa: F401  # register their protocols
from tests.cli.commands import dpsim_, write
from tests.sized import sized_scenario

pytestmark = pytest.mark.runs_once

MODULES = ("--module", "tests.campaign.bound_programs", "--module", "tests.campaign.swarm_programs")
NO_NEWS = "checks: {switched_off: [DEATH]}\n"
KILLS = f"faults: [{{kind: kill, rank: 1}}, {{kind: kill, rank: 2}}]\n{NO_NEWS}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def explored(name: str, *words: str, ranks: int = 3, more: str = "") -> Any:
    write(Path("x.yaml"), sized_scenario(name, ranks, more))
    return dpsim_("explore", "x.yaml", *MODULES, "--json", *words).json["scenarios"][0]


def verdict_and_bounds(found: Any) -> tuple[Any, ...]:
    return found["verdict"], found["within"], found["unfinished"]


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ("0", ("bounded", "no late delivery", None)),
        ("1", ("bounded", "at most 1 late delivery", None)),
        pytest.param("2", ("violated", "at most 1 late delivery", None), marks=pytest.mark.slow),
    ],
)
def test_a_program_that_breaks_after_two_late_messages_needs_two_late_deliveries(late: str, expected: Any) -> None:
    """The program gets two messages and breaks if both are late."""
    found = explored("t_misses", "--late-deliveries", late)
    assert verdict_and_bounds(found) == expected
    assert verdict_and_bounds(explored("t_misses", more=f"limits: {{late_deliveries: {late}}}\n")) == expected
    assert verdict_and_bounds(explored("t_misses", "--late-deliveries", late, "--jobs", "2")) == expected
    if late == "2":
        replayed = dpsim_("replay", found["trace"], *MODULES)
        assert (replayed.code, "nothing came" in replayed.out) == (0, True), replayed.out + replayed.err


def test_a_world_that_is_within_its_bounds_is_proven() -> None:
    """The world has two messages, fewer than the bounds, and holds with both late. So it is proven."""
    found = explored("t_mourns", "--late-deliveries", "5", "--preemptions", "5")
    assert found["verdict"] == "proven"
    classes = explored("t_mourns", "--strategy", "dpor")["classes"]
    assert found["classes"] == classes


def test_a_program_that_survives_one_death_needs_two_deaths() -> None:
    """The program survives the death of one rank, but not of two. The explorer tries all choices of ranks on each
    level.
    """
    assert verdict_and_bounds(explored("t_mourns", "--deaths", "1", more=KILLS)) == ("bounded", "at most 1 death", None)
    found = explored("t_mourns", "--deaths", "2", more=KILLS)
    assert verdict_and_bounds(found)[:2] == ("violated", "at most 1 death")
    assert explored("t_mourns", more=KILLS)["class"] == found["class"]
    assert dpsim_("replay", found["trace"], *MODULES).code == 0
    both = explored("t_mourns", "--deaths", "1", "--late-deliveries", "1", more=KILLS)
    assert verdict_and_bounds(both) == ("bounded", "at most 1 late delivery and at most 1 death", None)


def test_a_program_whose_timeout_is_long_enough_needs_an_early_timeout() -> None:
    """Without an early time-out the rank waits long enough. The trace contains the world in which one may pass."""
    write(Path("x.yaml"), "name: x\nprotocol: {name: t_gives_up}\n")
    for early, verdict, within in (("0", "bounded", "no early time-out"), ("1", "violated", "no early time-out")):
        answer = dpsim_("explore", "x.yaml", *MODULES, "--json", "--early-timeouts", early)
        found = answer.json["scenarios"][0]
        assert verdict_and_bounds(found) == (verdict, within, None)
    assert dpsim_("replay", found["trace"], *MODULES).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no time-out passes early"),
        (("--early-timeouts", "0"), "no time-out passes early"),
        (("--early-timeouts", "1"), "at most 1 time-out of a run passes early"),
        (("--early-timeouts", "1", "--schedules", "2"), "no time-out passes early"),
    ],
)
def test_a_verdict_within_a_bound_assumes_the_level_that_was_tried(words: tuple[str, ...], said: str) -> None:
    """The third search tries every schedule with an early time-out. The last one ends within that level, so it claims
    only the level before.
    """
    write(Path("x.yaml"), "name: x\nprotocol: {name: t_gives_up, variant: T-SHRUGS}\n")
    answer = dpsim_("explore", "x.yaml", *MODULES, "--json", "--strategy", "dpor", *words)
    (found,) = answer.json["scenarios"]
    assert [one for one in found["assumes"] if "early" in one] == [said]


def test_a_budget_ends_in_a_bound() -> None:
    """The explorer deepens level by level. The budgets suffice for a part of the first level, for one level, and for
    all.
    """
    ends = [
        verdict_and_bounds(explored("t_misses", "--late-deliveries", "1", "--schedules", many))
        for many in ("1", "4", "30")
    ]
    assert ends == [
        ("sampled", None, "no late delivery"),
        ("bounded", "no late delivery", "at most 1 late delivery"),
        ("bounded", "at most 1 late delivery", None),
    ]
    text = dpsim_("explore", "x.yaml", *MODULES, "--late-deliveries", "1", "--schedules", "4").out
    said = (
        "BOUNDED  holds in every schedule with no late delivery; those with at most 1 late delivery were not finished"
    )
    assert said in text


def brute_deaths(scenario: Scenario, most: int) -> str:
    """Returns the verdict by the definition: DPOR on each world with at most `most` of the faults."""
    verdicts = set()
    for number in range(most + 1):
        for faults in combinations(scenario.faults, number):
            world = scenario.model_copy(update={"faults": [*faults]})
            verdicts.add(explore_subject(Subject.of(world), "dpor").verdict)
    return "violated" if "violated" in verdicts else "bounded"


def first_choice(self: Any, level: Bounds) -> Iterator[Scenario]:
    """A faulty twin: it explores only the first world of each level, which has the first of the faults."""
    yield next(WORLDS(self, level))


WORLDS = deepening._Levels._worlds
TWO = "faults: [{kind: die, rank: 2, at: {site: post, ordinal: 0}}, {kind: kill, rank: 1}]\n"


def test_each_choice_of_deaths_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 waits only for rank 1. So of two choices of one death only the second breaks the program."""
    write(Path("x.yaml"), sized_scenario("t_mourns_one", 3, TWO + NO_NEWS))
    scenario = load_scenario(Path("x.yaml"))
    options = Options(bounds=Bounds(deaths=1))
    (found,) = explore_each([(scenario, None)], options)
    assert found.explored.verdict == brute_deaths(scenario, 1) == "violated"
    monkeypatch.setattr(deepening._Levels, "_worlds", first_choice)
    (blind,) = explore_each([(scenario, None)], options)
    assert blind.explored.verdict == "bounded"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--deaths", "1", "--swarm", "3"], "--deaths: not together with --swarm or --all-up-to; explore one scenario"),
        (
            ["--late-deliveries", "1", "--strategy", "pct"],
            "--late-deliveries: bounds a search of all schedules, and pct samples; leave --strategy out",
        ),
    ],
)
def test_bounds_refuse_options_that_they_exclude(words: list[str], said: str) -> None:
    write(Path("x.yaml"), sized_scenario("t_misses", 3))
    answer = dpsim_("explore", "x.yaml", *MODULES, *words)
    assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")
    write(Path("x.yaml"), sized_scenario("t_misses", 3, "limits: {deaths: 0}\n"))
    answer = dpsim_("explore", "x.yaml", *MODULES, *words[2:])
    said = "t_misses: limits.deaths: " + said.partition(": ")[2]
    assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")
    for key in ("preemptions", "late_deliveries", "deaths"):
        write(Path("x.yaml"), sized_scenario("t_misses", 3, f"limits: {{{key}: -1}}\n"))
        answer = dpsim_("explore", "x.yaml", *MODULES)
        assert (answer.code, f"limits.{key}" in answer.err) == (2, True), answer.err
