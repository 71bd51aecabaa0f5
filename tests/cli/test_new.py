"""Tests `dpsim new`: the files that it writes pass at once, and a mistake in them is found. It overwrites no file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import dpsim_, process


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates a protocol in a folder, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    answer = dpsim_("new", "t_begun")
    assert answer.code == 0
    return tmp_path


@pytest.mark.slow
def test_new_writes_a_protocol_and_a_test_that_pass(made: Path) -> None:
    """Its test demands a proof. The twin samples one schedule of each world, and fails."""
    explored = process("explore", "t_begun.yaml", "--module", "t_begun.py", "--all-up-to", "ranks=2,steps=2", cwd=made)
    assert (explored.returncode, explored.stderr) == (0, "")
    assert explored.stdout.startswith("PROVEN  every one of these worlds holds")
    assert explored.stdout.endswith("\nexpected: proven; met\n"), "the scenario demands a proof, too"
    test = (made / "test_t_begun.py").read_text()
    (made / "test_twin.py").write_text(
        test.replace("holds(scenario)", 'holds(scenario, schedules=1, strategy="random")')
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-rpf"]
    tested = subprocess.run([*command, "."], cwd=made, capture_output=True, text=True, check=False)
    assert "PASSED test_t_begun.py::test_t_begun\n" in tested.stdout, tested.stdout
    assert "FAILED test_twin.py::test_t_begun - " in tested.stdout, tested.stdout


def test_a_mistake_in_it_is_found(made: Path) -> None:
    """The faulty twin: a rank decides its own number."""
    module = made / "t_begun.py"
    module.write_text(module.read_text().replace("int(largest[0])", "int(number[0])"))
    ran = process("run", "t_begun.yaml", "--module", "t_begun.py", cwd=made)
    assert ran.returncode == 1
    assert ran.stdout.startswith("VIOLATED  DISAGREEMENT:LARGEST")


@pytest.mark.parametrize("file", ["t_begun.py", "t_begun.yaml", "test_t_begun.py"])
def test_a_file_that_exists_is_kept(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text("mine")
    answer = dpsim_("new", "t_begun")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: {file}: this file exists; ")
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == "mine"


def test_new_writes_into_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "folder"
    answer = dpsim_("new", "t_begun", "-o", folder)
    assert f"next      dpsim run {folder}/t_begun.yaml --module {folder}/t_begun.py\n" in answer.out
    assert sorted(path.name for path in folder.iterdir()) == ["t_begun.py", "t_begun.yaml", "test_t_begun.py"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("class", "a keyword of Python"),
        ("numpy", "an installed module has this name"),
        ("conformance", "a registered protocol has this name"),
        *((name, "expected a name of lower-case letters") for name in ("a-b", "../x", "Big", "9", "", "_", "\u00e9")),
    ],
)
def test_new_refuses_bad_names(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = dpsim_("new", name)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert list(tmp_path.iterdir()) == []
