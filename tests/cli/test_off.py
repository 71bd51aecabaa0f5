"""Tests `dpsim run --off`, which leaves findings out of the verdict, and always says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.trace import read_trace
from tests.cli.commands import EXPECTED, HEALTHY, SKIP, dpsim_, write

OFF = "checks: {switched_off: ['CRASH:*']}\n"


def test_a_finding_that_is_switched_off_is_counted(broken: Path) -> None:
    count = sum(one["check"] == "ledger" for one in dpsim_("run", broken, "--json").json["findings"])
    answer = dpsim_("run", broken, "--off", "HANG:*")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert [lines[0], *lines[-2:]] == [
        "HELD  in 1 schedule: 3 steps on 3 ranks (sim)",
        f"{count} finding{'s' * (count != 1)} switched off: {count} by HANG:*; deadlock not run (HANG:*)",
        "expected: held; met",
    ]


def test_the_option_off_adds_to_the_patterns_of_the_scenario(tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", HEALTHY + SKIP + OFF)
    found = dpsim_("run", file, "--off", "HANG", "--off", "RACE", "--json").json
    assert (found["verdict"], found["findings"], found["class"]) == ("held", [], None)
    assert [*found["switched_off"]] == ["CRASH:*", "HANG"]
    assert found["not_run"] == {"deadlock": ["HANG"], "race": ["RACE"]}
    assert found["switched_off"]["HANG"] > 0
    assert dpsim_("run", file, "--json").json["switched_off"] == {"CRASH:*": 0}


def test_the_replay_line_repeats_the_option_off(broken: Path) -> None:
    answer = dpsim_("run", broken, "--off", "MISMATCH:*", "--off", "CRASH")
    assert answer.code == 1
    assert f"\nnext      dpsim run {broken} --off 'MISMATCH:*' --off CRASH --full\n" in answer.out
    assert answer.out.splitlines()[-2] == "0 findings switched off: 0 by MISMATCH:*, 0 by CRASH"


def test_the_trace_records_the_switch(broken: Path) -> None:
    assert dpsim_("run", broken, "--off", "HANG", "--trace", "t.jsonl").code == 0
    header = read_trace("t.jsonl").header
    assert (header.verdict, header.scenario["checks"]) == ("held", {"switched_off": ["HANG"]})


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("HNAG:*", "dpsim: --off: no finding has a class that 'HNAG:*' selects; did you mean 'HANG'?\n"),
        ("", "dpsim: --off: no finding has a class that '' selects; there are HANG:COLLECTIVE:MISSING_RANK, "),
    ],
)
def test_a_pattern_that_selects_nothing(healthy: Path, pattern: str, says: str) -> None:
    answer = dpsim_("run", healthy, "--off", pattern)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(says)


def test_the_option_off_refuses_a_class_that_the_scenario_expects(tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", HEALTHY + SKIP + EXPECTED)
    answer = dpsim_("run", file, "--off", "HANG")
    assert (answer.code, answer.out) == (2, "")
    assert "HANG switches off the class HANG:COLLECTIVE:MISSING_RANK that expect waits for" in answer.err
