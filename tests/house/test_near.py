"""Checks which tests `make near` runs for a change, and that it finds each kind of change in a git repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.house.figures import Imports
from tests.house.near import changed, command, main, near, part_of_file

GRAPH: Imports = {
    "dpsim": [],
    "dpsim.runner": ["dpsim.checks.judge"],
    "dpsim.contract": [],
    "dpsim.contract.ops": [],
    "dpsim.sim": [],
    "dpsim.sim.graph": ["dpsim.contract.ops"],
    "dpsim.checks": [],
    "dpsim.checks.judge": ["dpsim.contract.ops"],
    "dpsim.cli": ["dpsim.runner"],
    "real": ["dpsim.contract.ops"],
    "benchmarks": ["tests.programs"],
    "tests": [],
    "tests.programs": ["dpsim.sim.graph"],
    "tests.test_site": ["tests"],
    "tests.contract.test_ops": ["dpsim.contract.ops"],
    "tests.sim.handmade": [],
    "tests.sim.test_graph": ["dpsim.sim.graph"],
    "tests.sim.memory.test_blocks": ["dpsim.sim.graph"],
    "tests.checks.test_judge": ["dpsim.checks.judge", "tests.sim.handmade"],
    "tests.checks.test_hangs": ["dpsim.checks.judge", "dpsim.sim.graph"],
    "tests.cli.test_run": ["dpsim.cli"],
    "tests.soundness.test_proofs": ["dpsim.cli"],
    "tests.house.test_tree": ["tests.house.tree"],
    "tests.house.tree": ["tests"],
    "tests.vllm.reference.test_pages": ["tests.house.tree"],
}
"""A small tree: `cli` is above `runner`, `runner` above `checks`, and `checks`, `sim` and `real` above `contract`."""


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("dpsim/cli/app.py", "cli/test_run house/test_tree soundness/test_proofs"),
        ("dpsim/sim/graph/new.py", "checks/test_hangs house/test_tree sim/memory/test_blocks sim/test_graph"),
        (
            "dpsim/checks/judge.py",
            "checks/test_hangs checks/test_judge cli/test_run house/test_tree soundness/test_proofs",
        ),
        ("dpsim/runner.py", "cli/test_run house/test_tree soundness/test_proofs"),
        (
            "dpsim/contract/ops.py",
            "checks/test_hangs checks/test_judge cli/test_run contract/test_ops house/test_tree sim/memory/test_blocks "
            "sim/test_graph soundness/test_proofs",
        ),
        ("benchmarks/RESULTS.md", "house/test_tree"),
        ("tests/sim/test_graph.py", "sim/test_graph"),
        ("tests/sim/handmade.py", "checks/test_judge sim/memory/test_blocks sim/test_graph"),
        ("tests/sim/memory/conftest.py", "sim/memory/test_blocks"),
        ("tests/house/tree.py", "house/test_tree vllm/reference/test_pages"),
        ("tests/test_site.py", "test_site"),
    ],
)
def test_the_tests_near_a_change(file: str, tests: str) -> None:
    found = near([file], GRAPH)
    assert " ".join(name.removeprefix("tests/").removesuffix(".py") for name in found.why) == tests
    assert found.elsewhere == []


def test_each_test_has_its_reason() -> None:
    why = near(["dpsim/checks/judge.py", "dpsim/sim/x.py"], GRAPH).why
    assert why["tests/checks/test_judge.py"] == "checks has changed"
    assert why["tests/cli/test_run.py"] == "cli is above checks"
    assert why["tests/soundness/test_proofs.py"] == "imports cli: cli is above checks"
    assert near(["dpsim/sim/x.py"], GRAPH).why["tests/checks/test_hangs.py"] == "imports sim: sim has changed"


def test_only_arrows_lead_to_rooms_above() -> None:
    """The twin: without its import of `checks`, neither `runner` nor `cli` is above."""
    cut = {**GRAPH, "dpsim.runner": []}
    assert near(["dpsim/checks/judge.py"], cut).why.keys() == {
        "tests/checks/test_hangs.py",
        "tests/checks/test_judge.py",
        "tests/house/test_tree.py",
    }


@pytest.mark.parametrize(
    "file",
    [
        *("pyproject.toml", "Makefile", "conftest.py", "docs/design.md", "scenarios/quickstart.yaml"),
        *("dpsim/__init__.py", "dpsim/__main__.py", "dpsim/py.typed"),
        *("tests/programs.py", "tests/conftest.py", "tools/engine/dpsim_engine/check.py", "dpsim/gone/old.py"),
    ],
)
def test_a_change_elsewhere_needs_all_tests(file: str) -> None:
    assert near([file], GRAPH) == ({}, [file])


def test_files_of_this_repository_belong_to_rooms() -> None:
    files = ["dpsim/sim/graph/op.py", "dpsim/runner.py", "real/record/__init__.py", "benchmarks/counts.py"]
    assert all((ROOT / file).exists() for file in files)
    assert [part_of_file(file) for file in files] == ["sim", "runner", "real", "benchmarks"]


def test_pytest_gets_the_files_and_other_options() -> None:
    found = near(["dpsim/cli/app.py"], GRAPH)
    assert command(found, ["-x"])[1:] == ["-m", "pytest", "-n", "2", "--dist", "loadgroup", "-x", *found.why]


# ---- a repository


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two rooms and their tests, on a branch that has no change yet."""
    tests = "from dpsim.sim import graph\n\n\ndef test_one():\n    pass\n\n\nasync def test_two():\n    pass\n"
    sources = {
        "Makefile": "all:\n",
        ".gitignore": "__pycache__/\nbuild/\n",
        "dpsim/sim/graph.py": "from dpsim.contract import ops\n",
        "dpsim/contract/ops.py": "OPS = 1\n",
        "tests/sim/test_graph.py": tests,
    }
    for folder in ("dpsim", "dpsim/sim", "dpsim/contract", "real", "benchmarks", "tests", "tests/sim"):
        sources[f"{folder}/__init__.py"] = ""
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message=first")
    git(tmp_path, "checkout", "-b", "branch")
    return tmp_path


def test_a_change_may_be_committed_or_not_or_new(repository: Path) -> None:
    assert changed(repository) == []
    (repository / "dpsim/sim/graph.py").rename(repository / "dpsim/sim/moved.py")
    git(repository, "add", "--all")
    git(repository, "commit", "--message=second")
    (repository / "dpsim/contract/ops.py").write_text("OPS = 2\n")
    for new in ("dpsim/sim/é new.py", "build/ignored.py"):
        (repository / new).parent.mkdir(exist_ok=True)
        (repository / new).write_text("")
    expected = ["dpsim/contract/ops.py", "dpsim/sim/graph.py", "dpsim/sim/moved.py", "dpsim/sim/é new.py"]
    assert changed(repository) == expected


def test_what_main_got_since_the_branch_left_is_no_change(repository: Path) -> None:
    git(repository, "checkout", "main")
    (repository / "Makefile").write_text("none:\n")
    git(repository, "commit", "--all", "--message=third")
    git(repository, "checkout", "branch")
    assert changed(repository) == []
    git(repository, "update-ref", "refs/remotes/origin/main", "main")
    git(repository, "branch", "--force", "main", "branch")
    (repository / "dpsim/contract/ops.py").write_text("OPS = 2\n")
    assert changed(repository) == ["dpsim/contract/ops.py"]
    git(repository, "update-ref", "-d", "refs/remotes/origin/main")
    git(repository, "branch", "--move", "main", "other")
    with pytest.raises(ValueError, match="expected a branch origin/main or main"):
        changed(repository)


def test_the_list_has_folders_and_reasons_and_runs_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grimp")
    (repository / "dpsim/contract/ops.py").write_text("OPS = 2\n")
    (repository / "Makefile").write_text("none:\n")
    monkeypatch.setattr("tests.house.near.command", lambda found, others: [sys.executable, "-c", "exit(3)", *others])
    assert main(["--list"], repository) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["tests/sim", "1", "files", "2", "tests", "sim", "is", "above", "contract"],
        ["2", "tests", "in", "1", "files,", "each", "with", "one", "set", "of", "parameters", "or", "several"],
        ["Makefile:", "is", "in", "no", "room,", "so", "this", "change", "needs", "`make", "test`"],
    ]
    assert main(["-x"], repository) == 3, "the exit code of pytest"
    git(repository, "checkout", "dpsim")
    assert main([], repository) == 0, "nothing to run"
