"""Tests that all commands agree about a time-out that a planted delay outlasts. If one command finds a violation in a
world, no other command proves this world.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.campaign.files import Options
from dpsim.campaign.whole import explore_whole
from dpsim.scenario import ScenarioError, load_scenario
from dpsim.scenario.to_world import only_simulated
from dpsim.testing import holds
from tests.campaign import swarm_programs  # noqa: F401  # registers t_gives_up
from tests.cli.commands import dpsim_, write

MODULE = ("--module", "tests.campaign.swarm_programs")
PASSED = "rank 1 waited 50 ms for 'answer'; the time-out passed (answer[0], tests/campaign/swarm_programs.py:"
LATE = "delays: [{rank: 0, at: {site: want, ordinal: 0}, by: 100ms}]\n"
SOON = "delays: [{rank: 0, at: {site: want, ordinal: 0}, by: 10ms}]\n"
EARLY = "limits: {early_timeouts: 1}\n"


def gives_up(more: str = "", variant: str = "") -> Path:
    named = f"t_gives_up, variant: {variant}" if variant else "t_gives_up"
    return write(Path("up.yaml"), f"name: up\nprotocol: {{name: {named}}}\n{more}")


@pytest.mark.parametrize(
    ("more", "variant", "verdict"),
    [(LATE, "", "violated"), (SOON, "", "proven"), (LATE, "T-WAITS", "proven"), ("", "", "proven")],
)
def test_run_explore_and_holds_agree_on_early_timeouts(more: str, variant: str, verdict: str) -> None:
    file = gives_up(more, variant)
    code = int(verdict == "violated")
    assert dpsim_("run", file, *MODULE).code == code
    for words in ([], ["--strategy", "dpor"], ["--jobs", "2"], ["--strategy", "random", "--schedules", "40"]):
        answer = dpsim_("explore", file, *MODULE, "--json", *words)
        said = answer.json["scenarios"][0]["verdict"]
        assert said == verdict or (said, verdict, words[1:2]) == ("sampled", "proven", ["random"])
        assert answer.code == code
    scenario = load_scenario(file)
    whole = explore_whole([scenario], 1, Options(folder=Path(".whole")))
    assert whole.verdict == verdict
    if verdict == "violated":
        with pytest.raises(AssertionError, match="the time-out passed"):
            holds(scenario)
    else:
        assert holds(scenario).verdict == verdict


@pytest.mark.parametrize("kind", ["delay", "timeout"])
@pytest.mark.parametrize(("variant", "found"), [("", True), ("T-WAITS", False)])
def test_a_swarm_finds_it(kind: str, variant: str, found: bool) -> None:
    answer = dpsim_("explore", gives_up("", variant), *MODULE, "--swarm", f"12:{kind}")
    if kind == "timeout" and not found:
        assert answer.code == 2
        assert "has no op at which timeout does anything" in answer.err
        return
    assert answer.code == int(found)
    assert (PASSED in answer.out) == found


def test_run_explore_and_replay_say_that_a_time_out_passed() -> None:
    file = gives_up(LATE)
    assert PASSED in dpsim_("run", file, *MODULE).out
    answer = dpsim_("explore", file, *MODULE)
    assert PASSED in answer.out
    (trace,) = Path(".dpsim").iterdir()
    again = dpsim_("replay", trace, *MODULE)
    assert PASSED in again.out
    assert again.out.splitlines()[-1].endswith("the same run again")


def test_a_run_that_holds_says_it_too() -> None:
    answer = dpsim_("run", gives_up(LATE, "T-SHRUGS"), *MODULE)
    assert "HELD" in answer.out
    assert f"time-outs passed  {PASSED}" in answer.out
    assert "time-outs passed" not in dpsim_("run", gives_up(SOON, "T-SHRUGS"), *MODULE).out


def test_an_early_time_out_is_asked_for() -> None:
    answer = dpsim_("explore", gives_up(), *MODULE)
    assert "no time-out passes early" in answer.out
    answer = dpsim_("explore", gives_up(EARLY), *MODULE, "--full")
    assert answer.code == 1
    assert "rank 1 waits in vain at answer[0]: early" in answer.out
    answer = dpsim_("explore", gives_up(EARLY, "T-WAITS"), *MODULE)
    assert answer.code == 0
    assert "early" not in answer.out, "no rank waits with a time-out"


def test_real_backends_refuse_it() -> None:
    refused = only_simulated(load_scenario(gives_up(EARLY)), "gloo")
    assert refused is not None
    assert "limits.early_timeouts: the gloo backend has no such limit" in str(refused)
    assert only_simulated(load_scenario(gives_up("limits: {early_timeouts: 0}\n")), "gloo") is None


def test_a_negative_number_of_early_timeouts_is_refused() -> None:
    with pytest.raises(ScenarioError, match="early_timeouts: -1 is too small"):
        load_scenario(gives_up("limits: {early_timeouts: -1}\n"))
