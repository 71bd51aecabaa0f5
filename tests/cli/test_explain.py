"""Tests `dpsim explain` with folders of dumps of torch's flight recorder, with traces, and with other files. Other
commands advise `explain` if a user passes them a dump.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dpsim.checks.finding import Finding
from dpsim.cli.app import app
from dpsim.diagnose.dumps.of_run import explained
from dpsim.diagnose.dumps.text import as_text
from dpsim.runner import run_scenario
from dpsim.trace import write_trace
from tests.checks.handmade import Made
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_judgement import HANGS, steps
from tests.protocols import agreed


def typed(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], prog_name="dpsim")


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return steps(MadeJob(4), 3, HANGS["absent"][0]).write(tmp_path)


def test_explain_names_the_culprit_of_a_folder_of_dumps(dumps: Path) -> None:
    done = typed("explain", dumps)
    assert done.exit_code == 0
    assert done.output.startswith("HANG  HANG:COLLECTIVE  ")
    assert "\nculprit   rank 2, all_reduce #10 on default_pg at train.py:10" in done.output


@pytest.mark.parametrize("blocked", [1, 2])
def test_one_blocked_rank_is_not_named_as_one_of_several(blocked: int) -> None:
    made = Made(3)
    for rank in range(blocked):
        made[rank].collective("dp", None)
    run = made.run(*["blocked"] * blocked, *["finished"] * (3 - blocked))
    finding = Finding("hangs", "HANG:COLLECTIVE:MISSING_RANK", "ranks wait", None, (0, 0))
    assert as_text(explained(made.world, run, [finding])).count("; one of ranks 0, 1") == (blocked == 2)
    assert "one of rank 0" not in as_text(explained(made.world, run, [finding]))


def test_explain_prints_one_json_object(dumps: Path) -> None:
    found = json.loads(typed("explain", dumps, "--json").stdout)
    assert (found["outcome"], found["culprit"]["ranks"], found["schema_version"]) == ("hang", [2], 2)


def test_explain_compares_dumps_of_two_times(tmp_path: Path) -> None:
    job = steps(MadeJob(4), 3, HANGS["absent"][0])
    first, later = tmp_path / "1", tmp_path / "2"
    for folder in (first, later):
        folder.mkdir()
        job.write(folder)
        job.call([2], "all_reduce", 16, line=10)
    assert typed("explain", first, later).output.startswith("MOVING  ")


def test_a_hostile_dump_ends_with_2(dumps: Path) -> None:
    (dumps / "nccl_rank_1").write_bytes(pickle.dumps(print, protocol=2))
    done = typed("explain", dumps)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "plain data alone" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "explore"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_dump_that_is_run_says_where_to_go(command: str, as_json: bool, tmp_path: Path) -> None:
    steps(MadeJob(2), 0).write(tmp_path, as_json=as_json)
    name = "nccl_rank_0.json" if as_json else "nccl_rank_0"
    done = typed(command, tmp_path / name)
    assert done.exit_code == 2
    assert f"dpsim explain {tmp_path}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_explain_refuses_the_dump_of_one_rank(dumps: Path) -> None:
    done = typed("explain", dumps / "nccl_rank_0")
    assert done.exit_code == 2
    assert f"expected the folder of all: dpsim explain {dumps}" in done.stderr


def test_explain_refuses_a_path_without_dumps_or_a_trace(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("no trace")
    for path in (tmp_path, tmp_path / "x.jsonl", tmp_path / "nowhere"):
        done = typed("explain", path)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "expected" in done.stderr


SKIP = {"kind": "skip", "rank": 1, "at": {"site": "dp.agree", "ordinal": 2}}


def traced(folder: Path, faults: list[Any]) -> Path:
    """Returns the trace of a run of three ranks that agree in each step."""
    scenario = agreed({"steps": 3, "ranks": 3}, faults=faults)
    file = folder / "a.jsonl"
    run = run_scenario(scenario).run
    write_trace(file, run, scenario=scenario.model_dump(mode="json", by_alias=True), verdict="held", klass=None)
    return file


def test_a_trace_has_the_same_fields(tmp_path: Path, dumps: Path) -> None:
    found = json.loads(typed("explain", traced(tmp_path, [SKIP]), "--json").stdout)
    assert {*found} == {*json.loads(typed("explain", dumps, "--json").stdout)}
    assert (found["outcome"], found["class"], found["detail"]) == ("hang", "HANG:COLLECTIVE", "MISSING_RANK")
    culprit = found["culprit"]
    assert (culprit["ranks"], culprit["group"], culprit["op"]) == ([1], "dp_cpu", "all_reduce")
    assert culprit["seq"] == 3


def test_explain_names_no_culprit_of_a_healthy_trace(tmp_path: Path) -> None:
    found = json.loads(typed("explain", traced(tmp_path, []), "--json").stdout)
    assert (found["outcome"], found["culprit"]) == ("finished", None)
