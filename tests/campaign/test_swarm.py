"""Tests a swarm: many worlds with random faults. It finds a rank that repeats a call without end after a fault, and
reports which kinds of faults were possible. The healthy program holds in all these worlds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign.files import Options
from dpsim.campaign.swarm import shorter, swarm_of
from dpsim.campaign.whole import Whole, explore_whole
from dpsim.checks.expected import Expected
from dpsim.cli.explore_worlds_text import whole_verdict
from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.scenario.swarm import DELAYS, Place, Swarm
from tests.campaign import swarm_programs  # noqa: F401  # registers t_asks
from tests.cli.commands import dpsim_, write
from tests.protocols import agreed, served

OFF = ["DEATH", "HANG"]
TEXT = """
name: asks
protocol: {name: t_asks, variant: VARIANT}
checks: {switched_off: [DEATH, HANG]}
limits: {progress: 60}
"""


def asks(variant: str | None = None, **more: Any) -> Scenario:
    return scenario_from(
        {
            "name": "asks",
            "protocol": {"name": "t_asks", "variant": variant},
            "checks": {"switched_off": OFF},
            "limits": {"progress": 60},
            **more,
        }
    )


def whole(scenario: Scenario, kinds: tuple[str, ...], folder: Path) -> Whole:
    drawn = [one.scenario for one in swarm_of(scenario, None, Swarm(12, kinds))]
    return explore_whole(drawn, len(drawn), Options("dpor", 300, folder=folder), drawn=True)


@pytest.mark.parametrize("kinds", [("die", "kill"), ("delay",)])
def test_an_endless_poll_is_found_after_a_death_or_delay(kinds: tuple[str, ...], tmp_path: Path) -> None:
    found = whole(asks("T-ASKS-FOR-EVER"), kinds, tmp_path)
    assert found.first is not None
    assert found.first.explored.findings[0].klass == "PROGRESS:BOUND"
    assert found.first.scenario.description.startswith("Possible here: ")


def test_drawn_worlds_are_a_sample_though_each_is_proven(tmp_path: Path) -> None:
    """The twin explores the same worlds as a whole set, so it may call the set proven. Each world has to be as
    expected, so a scenario that expects a proof gets it.
    """
    found = whole(asks(), ("die", "kill", "delay"), tmp_path)
    assert (found.first, found.verdict, found.of_each, found.explored) == (None, "sampled", "proven", 12)
    assert found._replace(expected=Expected("proven")).unmet is None
    assert found._replace(drawn=False).verdict == "proven"
    text = whole_verdict(Swarm(12), 12, found)
    assert text.startswith("SAMPLED  no failure in 12 drawn worlds; ")


def test_a_poll_ends_without_a_death_or_delay(tmp_path: Path) -> None:
    found = explore_whole([asks("T-ASKS-FOR-EVER")], 1, Options("dpor", 300, folder=tmp_path))
    assert (found.first, found.verdict) == (None, "proven")


def test_faults_lie_at_ops_of_ranks_and_services() -> None:
    drawn = swarm_of(served(), None, Swarm(100, ("die", "delay")))
    who = {fault.rank for one in drawn for fault in one.scenario.faults}
    assert {"frontend", "coordinator", "engine.0", "engine.1", 0, 1} >= who
    assert {"engine.0", 0} <= who
    assert len({fault.at for one in drawn for fault in one.scenario.faults}) > 10


def test_a_run_that_does_not_end_is_no_beginning() -> None:
    with pytest.raises(ScenarioError, match="--swarm plants faults into a run that ends, and this one does not"):
        swarm_of(agreed({"tokens": [0, 1]}, "T-SKIPS"), None, Swarm(1))


def test_a_place_names_site_ordinal_and_thread() -> None:
    place = Place("engine.0", "get", 2, "main", calls=False, can_be_late=True)
    assert place.at == {"at": {"site": "get", "ordinal": 2}}
    assert place._replace(thread="guard").at == {"at": {"site": "get", "ordinal": 2, "thread": "guard"}}


@pytest.mark.slow
def test_the_option_swarm_finds_the_endless_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = "--module", "tests.campaign.swarm_programs"
    faulty = write(Path("faulty.yaml"), TEXT.replace("VARIANT", "T-ASKS-FOR-EVER"))
    answer = dpsim_("explore", faulty, *module, "--swarm", "12:die,kill", "--strategy", "dpor")
    assert answer.code == 1
    assert "worlds    12 drawn, with at most 2 faults of die, kill" in answer.out
    assert "possible  die in " in answer.out
    assert "description: 'Possible here: " in answer.out or "description: Possible here: " in answer.out
    assert "PROGRESS:BOUND" in answer.out
    healthy = write(Path("healthy.yaml"), TEXT.replace(", variant: VARIANT", ""))
    answer = dpsim_("explore", healthy, *module, "--swarm", "12", "--strategy", "dpor", "--json")
    assert answer.code == 0
    (row,) = answer.json["scenarios"]
    assert row["swarm"] == {"worlds": 12, "kinds": ["die", "kill", "delay"]}
    assert set(row["possible"]) == {"die", "kill", "delay"}
    assert row["verdict"] == "sampled"
    assert row["violated"] is None
    assert row["proven"] + row["vacuous"] == 12


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--swarm", "3:dye"), "--swarm: 'dye' is no kind of fault; did you mean 'die'?"),
        (("--swarm", "3", "--all-up-to", "ranks=1"), "--swarm: not together with --all-up-to"),
        (("--swarm", "3", "--keep-going"), "--keep-going: with --swarm the first world"),
    ],
)
def test_a_wrong_option_swarm_is_bad_input(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    answer = dpsim_("explore", write(tmp_path / "asks.yaml", TEXT.replace(", variant: VARIANT", "")), *words)
    assert answer.code == 2
    assert said in answer.err


def test_delays_in_time_are_shorter_than_each_timeout() -> None:
    """Two delays of a world may add up. A time-out of 0 is a poll."""
    assert shorter(DELAYS, {0, 2_000_000_001, 100_000_000_000}) == ("1us", "1ms", "1s")
    assert shorter(DELAYS, {2_000_000_000}) == ("1us", "1ms")
    assert shorter(DELAYS, ()) == DELAYS


def test_a_swarm_in_time_draws_no_long_delay() -> None:
    """The program has a time-out of 1 s. The twin draws delays of all lengths."""

    def longest(in_time: bool) -> int:
        drawn = swarm_of(asks(), None, Swarm(60, ("delay",)), in_time=in_time)
        return max(delay.by for one in drawn for delay in one.scenario.delays)

    assert longest(in_time=True) == 1_000_000
    assert longest(in_time=False) == 1_000_000_000_000
