"""Tests `holds_again` and the printed result of `holds`. `holds_again` takes the token of a failed test, a word that
encodes a scenario and a schedule. It replays them after the program changed.
"""

from pathlib import Path

import pytest

from dpsim.campaign.commands import step_by_step
from dpsim.campaign.properties import DoesNotHold, holds_again
from dpsim.campaign.subject import Subject
from dpsim.campaign.token import Token, read_token
from dpsim.pytest_plugin import pytest_assertrepr_compare
from dpsim.scenario import modules
from dpsim.testing import holds
from tests.protocols import agreed

COMMAND = "pytest test_mine.py::test_mine --dpsim-replay="


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Token:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSIM_RESULTS", "1")
    with pytest.raises(DoesNotHold) as raised:
        holds(agreed({"ranks": 2, "tokens": [0, 1]}, "T-SKIPS", name="drawn"))
    return read_token(raised.value.replay.partition("=")[2])


def again(token: Token) -> DoesNotHold:
    with pytest.raises(DoesNotHold) as raised:
        holds_again(token, f"{COMMAND}{token}")
    return raised.value


def test_the_same_failure_keeps_its_token(token: Token) -> None:
    failure = again(token)
    assert failure.replay == f"{COMMAND}{token}"
    assert f"step by step: dpsim replay {token} --module tests.protocols --step\n" in str(failure)
    assert failure.results is not None
    assert (failure.results / "report.txt").is_file()


def test_the_results_keep_the_whole_report(token: Token) -> None:
    """The replay writes into the folder of the first failure, so its report has the same sections."""
    [first] = [one for one in Path(".dpsim/results").iterdir() if not one.is_symlink()]
    before = headings(first / "report.txt")
    (first / "report.txt").unlink()
    assert again(token).results == first
    assert headings(first / "report.txt") == before
    assert before == ["the whole finding:", "all waits:", "last 5 ops of each rank:", "the usual fix:"]


def headings(report: Path) -> list[str]:
    """Returns the titles of the sections below the first screen."""
    return [line for line in report.read_text().splitlines() if line.endswith(":") and not line.startswith(" ")]


def test_another_schedule_gets_its_own_token(token: Token) -> None:
    """The schedule of the token contains a step that the program no longer makes. So the failure has a new token."""
    failure = again(token._replace(steps=("rank 1 gone[0]", *token.steps)))
    assert "the schedule does not fit any more" in str(failure)
    assert failure.replay == f"{COMMAND}{token}", "the line replays the schedule that the program follows now"
    assert f"results: {failure.results}" in str(failure)


def test_a_protocol_of_an_entry_point_needs_no_module(token: Token, monkeypatch: pytest.MonkeyPatch) -> None:
    assert step_by_step(token.scenario, f"dpsim replay {token}") == "", (
        "the user adds --step to the line that is printed already"
    )
    monkeypatch.setattr(modules, "known_without_import", lambda module: True)
    assert step_by_step(token.scenario, f"{COMMAND}{token}") == f"dpsim replay {token} --step"


def test_another_finding_gets_its_own_token(token: Token) -> None:
    failure = again(token._replace(klass="CRASH:KEYERROR"))
    assert f"NOT the same run; it was CRASH:KEYERROR, now {token.klass}" in str(failure)
    assert failure.replay == f"{COMMAND}{token}"


def test_no_answer_shows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    scenario = agreed({"ranks": 2, "tokens": [1]}, name="drawn")
    found = holds(scenario)
    assert found.subject.origin is not None
    assert found.subject.origin.environment["A_SECRET"] == "hunter2"
    for shown in (repr(found), repr(found.subject), repr(Subject.of(scenario))):
        assert "hunter2" not in shown
    assert repr(found).startswith("<drawn, proven: holds in every schedule of this world; ")


def test_an_assertion_that_a_world_is_proven_says_what_to_raise() -> None:
    scenario = agreed({"ranks": 3, "tokens": [1, 1]}, name="drawn")
    few, all_ = holds(scenario, schedules=1, strategy="random"), holds(scenario)
    assert (few.verdict, all_.verdict) == ("sampled", "proven")
    lines = pytest_assertrepr_compare("==", few.verdict, "proven")
    assert lines is not None
    assert lines[1].startswith("not proven after 1 schedule: raise `schedules`, take strategy=")
    assert pytest_assertrepr_compare("==", all_.verdict, "sampled") is None
    assert pytest_assertrepr_compare("==", "sampled", "proven") is None
