"""Tests `dpsim run`: its output as text and as JSON, and the files that it writes."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

import dpsim.trace
import tests.cli.protocols  # noqa: F401 - registers
from dpsim import runner
from dpsim.scenario import load_scenario, scenario_from
from dpsim.trace import TraceError, read_trace
from tests.cli.commands import HEALTHY, MODULE, OTHER_CULPRIT, SKIP, Fake, dpsim_, process, write


def test_run_prints_a_run_that_holds(healthy: Path) -> None:
    answer = dpsim_("run", healthy)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert [lines[0], lines[-1]] == ["HELD  in 1 schedule: 6 steps on 3 ranks (sim)", "expected: held; met"]
    names = [re.split("  +", line)[0] for line in lines[2:-1]]
    assert names == [
        *("scenario", "params", "backend", "ranks", "steps", "largest plan", "plans", "simulated time"),
        *("rank 0 waited", "rank 1 waited", "rank 2 waited"),
    ]
    assert re.search(r"^plans +even 3, odd 3$", answer.out, re.MULTILINE)
    assert re.search(r"^rank 1 waited +[\d.]+ (ns|us|ms)( \([\d.]+ %\))?$", answer.out, re.MULTILINE)


def test_a_planted_fault_that_is_found_is_a_success(planted: Path) -> None:
    answer = dpsim_("run", planted)
    assert answer.code == 0
    assert answer.out.startswith("VIOLATED  HANG:COLLECTIVE  HANG: a rank left out")
    assert "\nculprit   rank 1, step 2, dp.agree at tests/agreeing.py:" in answer.out
    assert f"next      dpsim run {planted} --full\n" in answer.out
    assert answer.out.splitlines()[-1] == (
        "expected: violated, HANG:COLLECTIVE:MISSING_RANK, culprit rank 1 in step 2; met"
    )


def test_run_prints_an_unexpected_violation_as_not_met(broken: Path) -> None:
    answer = dpsim_("run", broken)
    assert answer.code == 1
    assert answer.out.startswith("VIOLATED  HANG:COLLECTIVE  HANG: a rank left out")
    assert answer.out.splitlines()[-1] == "expected: held; NOT met: expected held, got violated"


def test_run_prints_another_culprit_as_not_met(tmp_path: Path) -> None:
    answer = dpsim_("run", write(tmp_path / "x.yaml", HEALTHY + SKIP + OTHER_CULPRIT))
    assert answer.code == 1
    assert answer.out.splitlines()[-1].startswith("expected: violated, culprit rank 0; NOT met: expected rank 0")


def test_the_replay_repeats_what_was_asked(tmp_path: Path) -> None:
    (tmp_path / "my folder").mkdir()
    scenario = write(tmp_path / "my folder" / "x.yaml", HEALTHY + SKIP)
    answer = dpsim_("run", scenario, "--module", "tests.agreeing")
    assert f"next      dpsim run '{scenario}' --module tests.agreeing --full\n" in answer.out


@pytest.mark.parametrize("replays", [0, 2])
def test_graphs_are_counted(replays: int, tmp_path: Path) -> None:
    """The report counts captured graphs and replays. For a run without graphs it has no such line."""
    text = f"name: x\nprotocol: {{name: t_captures, params: {{ranks: 3, replays: {replays}}}}}\n"
    scenario = write(tmp_path / "x.yaml", text)
    said = f"^graphs +3 captured, {3 * replays} replays$"
    assert re.search(said, dpsim_("run", scenario).out, re.MULTILINE)
    assert dpsim_("run", scenario, "--json").json["graphs"] == {"captured": 3, "replayed": 3 * replays}
    assert "graphs" not in dpsim_("run", write(scenario, HEALTHY)).out


def test_many_ranks_are_summed_up(tmp_path: Path) -> None:
    scenario = write(tmp_path / "x.yaml", HEALTHY.replace("ranks: 3", "ranks: 12"))
    answer = dpsim_("run", scenario)
    assert re.search(
        r"^ranks waited +min .*, median .*, max .*\nlongest +rank \d+ .*, rank \d+ ", answer.out, re.MULTILINE
    )
    assert "rank 0 waited" not in answer.out


# ---- json


def test_run_prints_a_run_that_holds_as_json(healthy: Path) -> None:
    found = dpsim_("run", healthy, "--json").json
    assert list(found) == [
        *("scenario", "backend", "verdict", "lost", "class", "detail", "culprit", "met", "unmet", "unclaimed"),
        *("never_applied", "findings", "agreed", "chain", "waits", "ground", "no_return", "swap", "one_more"),
        *("repairs", "shared", "variant", "unprotected", "next", "switched_off", "not_run"),
        *("steps", "figures", "graphs", "waited_ns", "elapsed_ns", "digest"),
    ]
    assert (found["scenario"], found["backend"], found["verdict"], found["met"]) == ("three", "sim", "held", True)
    assert (found["class"], found["detail"], found["culprit"], found["findings"]) == (None, None, None, [])
    assert found["unmet"] is None
    assert (found["steps"], found["graphs"], len(found["waited_ns"])) == (6, None, 3)
    assert re.fullmatch("[0-9a-f]{64}", found["digest"])


def test_run_prints_a_violation_as_json(broken: Path, tmp_path: Path) -> None:
    answer = dpsim_("run", broken, "--json", "--trace", "x.jsonl")
    assert answer.code == 1
    found = answer.json
    assert (found["verdict"], found["met"]) == ("violated", False)
    assert (found["class"], found["detail"]) == ("HANG:COLLECTIVE", "MISSING_RANK")
    assert found["unmet"] == "expected held, got violated"
    assert found["culprit"].keys() == {"rank", "ranks", "step", "site", "where", "within", "of_peer"}
    assert (found["culprit"]["rank"], found["culprit"]["step"], found["culprit"]["site"]) == (1, 2, "dp.agree")
    assert found["culprit"] == found["findings"][0]["culprit"]
    assert found["findings"][0].keys() == {
        *("check", "class", "detail", "message", "culprit", "details", "ground", "waits", "chain", "facts")
    }
    assert found["next"] == [f"dpsim run {broken} --full", "dpsim replay x.jsonl"]
    assert found["chain"] == found["findings"][0]["chain"] != []
    assert found["digest"] == read_trace(tmp_path / "x.jsonl").header.digest


# ---- traces


def test_traces_are_written_whatever_the_verdict(healthy: Path, broken: Path, tmp_path: Path) -> None:
    for scenario, verdict in ((healthy, "held"), (broken, "violated")):
        answer = dpsim_("run", scenario, "--trace", "x.jsonl")
        trace = read_trace(tmp_path / "x.jsonl")
        list(trace.journals())
        assert trace.header.verdict == verdict
        assert scenario_from(trace.header.scenario) == load_scenario(scenario)
        assert trace.header.versions.keys() == {"dpsim", "python", "numpy", "simpy"}
        assert re.search(rf"^trace +x.jsonl\ntrace digest +{trace.header.digest[:16]}$", answer.out, re.MULTILINE)


def test_a_folder_that_is_missing_is_seen_before_the_run(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner._backends, "fake", Fake(AssertionError("it ran")))
    answer = dpsim_("run", healthy, "--backend", "fake", "--trace", "missing/x.jsonl")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "dpsim: missing: there is no such folder\n"


def test_a_full_disk_does_not_cost_the_verdict(healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "x.jsonl")

    monkeypatch.setattr(os, "fsync", full)
    answer = dpsim_("run", healthy, "--trace", "x.jsonl")
    assert (answer.code, answer.err) == (3, "dpsim: x.jsonl: No space left on device\n")
    assert "HELD  in 1 schedule: 6 steps" in answer.out
    assert "trace digest" not in answer.out
    assert sorted(os.listdir(tmp_path)) == ["three.yaml"]


def test_a_decision_that_no_trace_can_hold_does_not_cost_the_verdict(
    healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(journals: object) -> str:
        raise TraceError("rank 0, step 0, decision plan[0]: not of set")

    monkeypatch.setattr(dpsim.trace, "digest", refuse)
    answer = dpsim_("run", healthy, "--json")
    assert (answer.code, answer.json["verdict"], answer.json["digest"]) == (2, "held", None)
    assert answer.err == "dpsim: rank 0, step 0, decision plan[0]: not of set\n"


def test_the_option_module_registers_the_protocol_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_protocol_of_a_test.py").write_text(
        "from dpsim.contract.registry import register_protocol\n"
        "from tests.sized import SizedProgram\n"
        "@register_protocol('mine_of_a_test')\n"
        "class Mine(SizedProgram):\n"
        "    async def run(self, rank, args):\n"
        "        rank.step = 0\n"
        "        rank.decide('form', args.form, 'world')\n"
    )
    (tmp_path / "mine.yaml").write_text("name: mine\nprotocol: mine_of_a_test\nexpect: {verdict: vacuous}\n")
    monkeypatch.chdir(tmp_path)
    done = dpsim_("run", "mine.yaml", "--module", "my_protocol_of_a_test")
    assert done.code == 0, done.err
    refused = dpsim_("run", "mine.yaml", "--module", "no_such_module")
    assert refused.code == 2
    assert "cannot import the module no_such_module" in refused.err


def test_run_reads_a_scenario_from_standard_input() -> None:
    ran = process("run", "-", *MODULE, input=HEALTHY)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("HELD ")
    fails = process("run", "-", *MODULE, input=HEALTHY + SKIP)
    [line] = re.findall(r"next +(.*)", fails.stdout)
    assert line == f"dpsim run - {' '.join(MODULE)} --full < SCENARIO.yaml"
    wrong = process("run", "-", *MODULE, input="name: [")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("dpsim: standard input:2:1: not YAML")
    twice = process("explore", "-", "-", *MODULE, input=HEALTHY)
    assert (twice.returncode, twice.stderr) == (
        2,
        "dpsim: -: standard input has one scenario; give the others as files\n",
    )
