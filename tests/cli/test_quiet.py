"""Tests `--quiet`: a command prints only the verdict and the expectation, besides errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpsim.cli.console import Progress
from dpsim.cli.options import allow_memory
from dpsim.scenario import estimate
from tests.cli.commands import HEALTHY, MODULE, dpsim_, write
from tests.cli.test_console import Clock

VERDICTS = ("HELD", "VIOLATED", "PROVEN", "SAMPLED", "VACUOUS", "LOST", "replayed", "expected:")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "healthy"),
        ("run", "broken"),
        ("run", "planted"),
        ("explore", "healthy", "--schedules", "2"),
        ("explore", "broken"),
        ("explore", "healthy", "--all-up-to", "ranks=2,steps=2"),
        ("replay", "b.jsonl"),
    ],
    ids=lambda words: "-".join(words[:3]),
)
def test_quiet_prints_two_lines_of_the_whole_output(
    words: tuple[str, ...], healthy: Path, broken: Path, planted: Path, traces: tuple[str, str]
) -> None:
    """The two lines of `--quiet` are lines of the whole output, too."""
    files = {"healthy": healthy, "broken": broken, "planted": planted}
    given = [*(files.get(word, word) for word in words), *MODULE]
    loud, quiet = dpsim_(*given), dpsim_(*given, "--quiet")
    assert quiet.code == loud.code
    assert quiet.err == ""
    lines = quiet.out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(VERDICTS) for line in lines)
    assert [line for line in loud.out.splitlines() if line.startswith(VERDICTS)] == lines
    assert len(loud.out.splitlines()) > 3, "the twin, without the option"


def test_of_several_scenarios_each_has_its_name(healthy: Path, broken: Path) -> None:
    answer = dpsim_("explore", healthy, broken, *MODULE, "--schedules", "2", "--quiet")
    assert answer.code == 1
    assert [line.partition(" ")[0] for line in answer.out.splitlines()] == [
        *("scenario", "PROVEN", "expected:"),
        *("scenario", "VIOLATED", "expected:"),
    ]


def test_worlds_that_do_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict contains the class, because there is no report. The results of the failure are still saved."""
    monkeypatch.delenv("DPSIM_RESULTS", raising=False)
    scenario = write(tmp_path / "like.yaml", HEALTHY)
    answer = dpsim_("explore", scenario, *MODULE, "--swarm", "5:skip", "--quiet")
    verdict, expected = answer.out.splitlines()
    assert answer.code == 1
    assert verdict.startswith("VIOLATED  world ")
    assert verdict.endswith(": HANG:COLLECTIVE")
    assert expected.startswith("expected: held; NOT met: ")
    assert [*(tmp_path / ".dpsim" / "results").iterdir()] != []


def test_the_museum_prints_its_last_line() -> None:
    words = ("museum", "--only", "M-DP-1", "--schedules", "5")
    assert dpsim_(*words, "--quiet").out == "1 of 1 variants are as registered\n"
    assert dpsim_(*words).out.endswith("\n1 of 1 variants are as registered\n")
    refused = dpsim_("museum", "M-DP-1", "--quiet")
    assert (refused.code, refused.out) == (2, "")


def test_errors_stay_and_json_stays(healthy: Path) -> None:
    answer = dpsim_("run", "no-such-scenario", "--quiet")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("dpsim: no scenario 'no-such-scenario': ")
    assert json.loads(dpsim_("run", healthy, *MODULE, "--quiet", "--json").out)["verdict"] == "held"


def shown(clock: Clock, quiet: bool) -> None:
    with Progress("x", clock, quiet=quiet) as progress:
        for step in range(30):
            clock.now += 1
            progress(step, 30)


def test_quiet_prints_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    shown(Clock(), quiet=True)
    assert capsys.readouterr().err == ""
    shown(Clock(), quiet=False)
    assert capsys.readouterr().err.count("\n") == 3, "the twin"


def test_a_large_run_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        for quiet in (True, False):
            allow_memory(None, quiet)
            estimate._allowed.tell("about 66,417 steps")
            assert (capsys.readouterr().err == "") == quiet
    finally:
        estimate.allow(None)
