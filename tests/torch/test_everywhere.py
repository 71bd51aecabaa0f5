"""Tests of scenarios with the key `torch` in Hypothesis, the pytest plugin, replays, swarms and kills."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app

pytest_plugins = ["pytester"]
pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TRAIN = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(2):
    dist.all_reduce(torch.ones(4))
"""
LATE = """
import torch
import torch.distributed as dist

def main(rank, size):
    store = dist.TCPStore("localhost", 29500, size, rank == 0)
    if rank == 0:
        store.set("stop", "1")
    if rank == 0 or not store.check(["stop"]):
        dist.all_reduce(torch.ones(4))
"""
"""A race decides whether rank 1 takes part."""
TESTS = """
from dpsim.testing import holds, scenarios, torch_holds
from hypothesis import given, settings, strategies as st

def drawn(target, **more):
    params = {{"target": st.just(target), "ranks": st.integers(2, 3), "args": st.just([]), "silence": st.just(30.0)}}
    return scenarios(protocol="torch", params=params | {{"order": st.just("gloo")}}, **more)

@settings(deadline=None, max_examples=2, database=None)
@given(drawn("{train}", max_faults=0))
def test_holds(scenario):
    holds(scenario)

@settings(deadline=None, max_examples=20, database=None)
@given(drawn("{train}", max_faults=1, kinds=["die"]))
def test_faults(scenario):
    holds(scenario)

@settings(deadline=None, max_examples=2, database=None)
@given(drawn("{late}:main", max_faults=0))
def test_race(scenario):
    holds(scenario)

def test_direct():
    torch_holds("{late}:main")
"""
HELD = "name: held\ntorch: {target: ../train.py, ranks: 2}\nexpect: {verdict: held, explored: proven}\n"
DIES = """\
name: dies
torch: {target: ../train.py, ranks: 2}
faults:
  - {kind: die, rank: 1, at: {communicator: world, seq: 1}}
"""
EXPECTED = 'expect: {verdict: violated, class: "HANG:*"}\n'
KILL = """\
name: kill
torch: {target: ../train.py, ranks: 2}
faults:
  - {kind: kill, rank: 1}
expect: {verdict: violated, class: "*RANK"}
"""


def written(folder: Path) -> Path:
    """Writes a script, a function, scenarios and tests into a folder."""
    train, late = folder / "train.py", folder / "late.py"
    texts = {"train.py": TRAIN, "late.py": LATE, "test_programs.py": TESTS.format(train=train, late=late)}
    files = {"held": HELD, "dies": DIES + EXPECTED, "wrong": DIES.replace("name: dies", "name: wrong"), "kill": KILL}
    (folder / "scenarios").mkdir()
    for name, text in {**texts, **{f"scenarios/{name}.yaml": text for name, text in files.items()}}.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Returns a pytest project with the files of `written`."""
    written(pytester.path)
    return pytester


def said(pytester: pytest.Pytester, *words: str) -> tuple[dict[str, int], str]:
    """Runs pytest in the project, and returns the outcomes and the output."""
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-n", "0", *words)
    return result.parseoutcomes(), result.stdout.str()


def test_scenario_files_are_tests(project: pytest.Pytester) -> None:
    outcomes, text = said(project, "scenarios", "--dpsim-explore=50", "-k", "sim or explored")
    assert "left alone" not in text
    assert "wrong.yaml::sim" in text
    assert outcomes["failed"] == 2  # wrong.yaml expects no violation, in one run and explored
    assert outcomes["passed"] >= 4


def test_hypothesis_draws_programs_and_faults(project: pytest.Pytester) -> None:
    assert said(project, "test_programs.py::test_holds")[0] == {"passed": 1}
    outcomes, text = said(project, "test_programs.py::test_faults")
    assert outcomes == {"failed": 1}
    assert "HANG:COLLECTIVE" in text


@pytest.mark.parametrize("test", ["test_race", "test_direct"])
def test_a_failure_is_replayed(project: pytest.Pytester, test: str) -> None:
    node = f"test_programs.py::{test}"
    outcomes, text = said(project, node)
    assert outcomes == {"failed": 1}
    [token] = re.findall(r"--dpsim-replay=(\S+)", text)
    again, text = said(project, node, f"--dpsim-replay={token}")
    assert again == {"failed": 1}
    assert "the same run again" in text


def test_a_token_with_a_file_that_the_test_does_not_name_is_refused(project: pytest.Pytester) -> None:
    _, text = said(project, "test_programs.py::test_direct")
    [token] = re.findall(r"--dpsim-replay=(\S+)", text)
    project.makepyfile(test_other="def test_other(): pass")
    result = project.runpytest_subprocess("test_other.py", "-n", "0", f"--dpsim-replay={token}")
    result.stderr.fnmatch_lines(["*it names the file *late.py; expected one that this command names (--file)*"])
    replay = (sys.executable, "-m", "dpsim.cli", "replay", token)
    assert project.run(*replay).ret == 2
    assert project.run(*replay, "--file", str(project.path / "late.py")).ret == 0


def test_worlds_like_a_scenario(tmp_path: Path) -> None:
    held = str(written(tmp_path) / "scenarios" / "held.yaml")
    small = CliRunner().invoke(app, ["explore", held, "--all-up-to", "ranks=3"])
    assert (small.exit_code, "PROVEN" in small.output) == (0, True)
    swarm = CliRunner().invoke(app, ["explore", held, "--swarm", "4:die", "--save", str(tmp_path)])
    assert (swarm.exit_code, "HANG:COLLECTIVE" in swarm.output) == (1, True)


def test_a_rank_is_killed_between_any_two_ops(tmp_path: Path) -> None:
    kill = str(written(tmp_path) / "scenarios" / "kill.yaml")
    result = CliRunner().invoke(app, ["explore", kill, "--save", str(tmp_path)])
    assert (result.exit_code, "VIOLATED" in result.output) == (0, True)
