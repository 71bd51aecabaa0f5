"""Tests `dpsim explore --against`: its exit code, its lines and its object, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim import runner
from dpsim.cli.explore_against import joined
from tests.campaign.against_programs import Alter, Altered, learns
from tests.cli.commands import dpsim_, write
from tests.sized import sized_scenario

MODULE = ("--module", "tests.campaign.against_programs")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(Path("asked.yaml"), sized_scenario("t_asked_twice", 3))


def altered(monkeypatch: pytest.MonkeyPatch, alter: Alter = lambda run: None) -> None:
    monkeypatch.setitem(runner._backends, "altered", Altered(alter))


def test_a_refuted_proof_ends_with_1_and_shows_both_sides(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, learns("poll2", 5))
    answer = dpsim_("explore", file, *MODULE, "--against", "altered", "7")
    assert answer.code == 1
    assert answer.out.startswith("REFUTED  altered: run 1 shows what no schedule shows\n")
    [real, seen] = [line for line in answer.out.splitlines() if line.startswith(("on altered ", "schedules  poll"))]
    assert real.startswith("on altered rank 0: poll2[0] 5, tests/campaign/against_programs.py:")
    assert {"poll2[0] 2", "poll2[0] None"} == set(seen.removeprefix("schedules  ").split(" or "))
    assert "expected: held; NOT met: run 1 on altered shows" in answer.out


def test_a_refuted_proof_is_not_called_proven(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first word, the word of `--quiet`, and the count of several scenarios. The world of two ranks holds."""
    other = write(Path("other.yaml"), sized_scenario("t_asked_twice", 2))
    refuted: tuple[Alter, str, str] = learns("poll2", 5), "refuted", "1 proven, 1 refuted"
    for alter, word, count in (refuted, (lambda run: None, "proven", "2 proven")):
        altered(monkeypatch, alter)
        answer = dpsim_("explore", file, other, *MODULE, "--against", "altered", "1")
        assert f"2 scenarios: {count}" in answer.out
        assert answer.out.startswith(word.upper())
        quiet = dpsim_("explore", file, *MODULE, "--against", "altered", "1", "--quiet")
        assert quiet.out.startswith(word.upper())
        assert (answer.code, quiet.code) == ((1, 1) if word == "refuted" else (0, 0))


@pytest.mark.parametrize("words", [["altered", "7"], ["altered:7"]])
def test_a_proof_that_holds_ends_with_0(words: list[str], file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch)
    answer = dpsim_("explore", file, *MODULE, "--against", *words)
    assert answer.code == 0
    assert "\nagainst altered: 7 runs, 1 outcome, all seen by the search\n" in answer.out


def test_an_unseen_outcome_of_a_sample_is_printed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, learns("poll2", 5))
    answer = dpsim_("explore", file, *MODULE, "--against", "altered", "--schedules", "1")
    assert answer.code == 0
    assert "\nUNSEEN  altered: run 1 shows what the search did not see\n" in answer.out


def test_json_has_both_sides(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dpsim_("explore", file, *MODULE, "--json").json["scenarios"][0]["against"] is None
    altered(monkeypatch, learns("poll2", 5))
    answer = dpsim_("explore", file, *MODULE, "--against", "altered", "3", "--keep-going", "--json")
    [found] = answer.json["scenarios"]
    assert (answer.code, found["verdict"], found["met"], found["against"]["refuted"]) == (1, "refuted", False, True)
    assert (found["against"]["runs"], len(found["against"]["unseen"])) == (3, 3)
    first = found["against"]["unseen"][0]
    assert (first["run"], first["actor"], first["learned"], len(first["seen"])) == (1, "rank 0", "poll2[0] 5", 2)


@pytest.mark.parametrize(
    "words",
    [["--swarm", "3"], ["--all-up-to", "ranks=2"], ["--work", "folder"], ["--resume", "folder"], ["--cluster", "auto"]],
)
def test_a_search_elsewhere_is_refused(words: list[str], file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch)
    answer = dpsim_("explore", file, *MODULE, "--against", "altered", *words)
    assert answer.code == 2
    assert f"--against: not together with {words[0]}" in answer.err


def test_what_only_the_simulation_has_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch)
    write(file, sized_scenario("t_asked_twice", 3, "faults: [{kind: kill, rank: 1, time: 1ms}]\n"))
    answer = dpsim_("explore", file, *MODULE, "--against", "altered")
    assert answer.code == 2
    assert "faults[0]: the altered backend cannot kill a rank between two ops" in answer.err
    assert dpsim_("explore", file, *MODULE, "--against", "no-such").code == 2


def test_a_number_belongs_to_the_option_only_behind_a_backend() -> None:
    assert joined(["a", "--against", "gloo"]) == ["a", "--against", "gloo"]
    assert joined(["--against", "gloo", "a", "7"]) == ["--against", "gloo", "a", "7"]
