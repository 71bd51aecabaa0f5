"""Tests the result folder of a failure: its files, when there is none, and that processes with the same failure do not
conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dpsim.campaign import alternatives
from dpsim.campaign.alternatives import turning_of
from dpsim.campaign.properties import DoesNotHold
from dpsim.campaign.pruning import LATEST
from dpsim.campaign.results import Failed
from dpsim.campaign.subject import Subject
from dpsim.contract.world import Run, World
from dpsim.explore.turning import Turning
from dpsim.scenario import parse_scenario
from dpsim.testing import holds
from tests.agreeing import EXPECTED, HEALTHY, SKIP
from tests.cli.commands import dpsim_, write
from tests.cli.protocols import scenario

FILES = ["picture.html", "report.txt", "scenario.yaml", "trace.jsonl"]
FOLDER = Path(".dpsim", "results")


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSIM_RESULTS", "1")


def folder_of(out: str) -> Path:
    """Returns the folder in the last line of a command's output."""
    label, _, folder = out.splitlines()[-1].partition(": ")
    assert label == "results"
    return Path(folder)


def test_an_unexpected_result_writes_a_folder(broken: Path) -> None:
    own = folder_of(dpsim_("run", broken).out)
    assert own.parent == FOLDER
    assert sorted(path.name for path in own.iterdir()) == FILES
    assert (FOLDER / LATEST).resolve() == own.resolve()
    assert "last 5 ops of each rank" in (own / "report.txt").read_text()
    assert "waits for rank 1" in (own / "picture.html").read_text()
    assert dpsim_("replay", own / "trace.jsonl").out.endswith("the same run again\n")
    again = folder_of(dpsim_("run", own / "scenario.yaml").out)
    assert again == own, "the same failure has one folder"


@pytest.mark.parametrize("text", [HEALTHY, HEALTHY + SKIP + EXPECTED])
def test_an_expected_result_writes_no_folder(text: str) -> None:
    for command in ("run", "explore"):
        assert dpsim_(command, write(Path("x.yaml"), text)).code == 0
    assert not FOLDER.exists()


def test_a_user_can_keep_no_files(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("run", "explore"):
        assert "results" not in dpsim_(command, broken, "--no-results").out
    monkeypatch.setenv("DPSIM_RESULTS", "0")
    assert "results" not in dpsim_("run", broken).out
    assert not FOLDER.exists()


def test_json_names_the_folder(broken: Path) -> None:
    assert Path(dpsim_("run", broken, "--json").json["results"]).is_dir()
    [own] = dpsim_("explore", broken, "--json").json["scenarios"][0]["results"]
    assert Path(own).is_dir()


def test_a_replay_of_a_failing_trace_writes_its_folder(broken: Path) -> None:
    """The folder of a replay contains the trace. No command overwrites the trace that it replays."""
    dpsim_("run", broken, "--trace", "x.jsonl", "--no-results")
    own = folder_of(dpsim_("replay", "x.jsonl").out)
    assert sorted(path.name for path in own.iterdir()) == FILES
    assert "the same run again" in (own / "report.txt").read_text()
    before = (own / "trace.jsonl").stat().st_mtime_ns
    assert dpsim_("replay", own / "trace.jsonl").out.endswith("the same run again\n")
    assert (own / "trace.jsonl").stat().st_mtime_ns == before
    assert "results" not in dpsim_("replay", "x.jsonl", "--no-results").out
    assert Path(dpsim_("replay", "x.jsonl", "--json").json["results"]) == own


def test_a_replay_along_a_schedule_keeps_it() -> None:
    write(Path("t_lost.yaml"), scenario("t_lost", 3))
    dpsim_("explore", "t_lost.yaml", "--module", "tests.cli.protocols", "--no-results")
    [trace] = Path(".dpsim").glob("*.jsonl")
    own = folder_of(dpsim_("replay", trace, "--module", "tests.cli.protocols").out)
    answer = dpsim_("replay", own / "trace.jsonl", "--module", "tests.cli.protocols")
    assert answer.out.splitlines()[-1] == "replayed along 4 choices: the same run again"


def test_every_command_gives_one_failure_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exploration, a replay of its trace, a replay of its token and a night use the same name for a failure."""
    write(Path("t_lost.yaml"), scenario("t_lost", 3))
    module = ("--module", "tests.cli.protocols")
    own = folder_of(dpsim_("explore", "t_lost.yaml", *module).out)
    [trace] = Path(".dpsim").glob("*.jsonl")
    assert folder_of(dpsim_("replay", trace, *module).out) == own
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(DoesNotHold) as raised:
        holds(parse_scenario(scenario("t_lost", 3)))
    assert raised.value.results is not None
    assert raised.value.results.name == own.name
    token = next(word for word in raised.value.replay.split() if word.startswith("dpsim1."))
    assert folder_of(dpsim_("replay", token, *module).out) == own
    dpsim_("campaign", "nightly", "t_lost.yaml", *module, "--part", "scenarios", "--size", "minute", "--out", "nights")
    [of_night] = Path("nights", "traces").glob("*.jsonl")
    assert of_night.stem == own.name


def test_a_run_in_time_has_the_name_of_its_replay(broken: Path) -> None:
    own = folder_of(dpsim_("run", broken, "--trace", "x.jsonl").out)
    assert folder_of(dpsim_("replay", "x.jsonl").out) == own


def test_the_faulty_twin_is_another_failure() -> None:
    """Another failure has another name. A faulty dpsim with a constant name would pass the tests above, but not this
    one.
    """
    write(Path("t_two.yaml"), scenario("t_two", 3))
    dpsim_("explore", "t_two.yaml", "--keep-going", "--module", "tests.cli.protocols", "--no-results")
    traces = sorted(Path(".dpsim").glob("*.jsonl"))
    assert len(traces) > 1
    names = [folder_of(dpsim_("replay", one, "--module", "tests.cli.protocols").out).name for one in traces]
    assert names == [one.stem for one in traces]


def test_a_replay_of_a_run_that_holds_or_is_expected_leaves_nothing() -> None:
    for text in (HEALTHY, HEALTHY + SKIP + EXPECTED):
        dpsim_("run", write(Path("x.yaml"), text), "--trace", "x.jsonl")
        assert "results" not in dpsim_("replay", "x.jsonl").out
    assert not FOLDER.exists()


def test_an_exploration_keeps_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its report is that of `--full`, and its picture marks the events. Only one of the two searches for them."""
    searches: list[Subject] = []

    def counted(subject: Subject, steps: Sequence[str]) -> Turning | None:
        searches.append(subject)
        return turning_of(subject, steps)

    monkeypatch.setattr(alternatives, "turning_of", counted)
    write(Path("t_lost.yaml"), scenario("t_lost", 3))
    answer = dpsim_("explore", "t_lost.yaml", "--module", "tests.cli.protocols", "--full")
    own, told = folder_of(answer.out), (folder_of(answer.out) / "report.txt").read_text()
    assert answer.out.startswith(told)
    assert [line.split()[0] for line in told.splitlines() if line.startswith(("turning ", "next "))] == [
        "turning",
        "next",
    ]
    assert "too early" in (own / "picture.html").read_text()
    assert len(searches) == 1
    answer = dpsim_("replay", own / "trace.jsonl", "--module", "tests.cli.protocols")
    assert answer.out.splitlines()[-1] == "replayed along 4 choices: the same run again"


def test_a_results_folder_that_cannot_be_written_changes_no_verdict(broken: Path) -> None:
    write(Path(".dpsim"), "a file in its place")
    answer = dpsim_("run", broken)
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.splitlines()[-1].startswith("expected: held; NOT met")


def test_no_name_leads_out_of_the_folder() -> None:
    named = parse_scenario(HEALTHY).model_copy(update={"name": "../.hidden/a b"})
    failed = Failed(named, World(1, ()), Run("sim", [[]], ["finished"], [0], 0), (), "", "12345678")
    assert failed.name == "-.hidden-a-b-12345678"
