"""Tests `dpsim explore --work` and `--resume`: it resumes the work in a folder, and refuses other folders with the
reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import processes, sameness
from dpsim.campaign.units import Unit, UnitResult, do
from dpsim.campaign.work import UnitFiles
from tests.cli.commands import dpsim_, write
from tests.cli.protocols import scenario

pytestmark = pytest.mark.runs_once

MODULE = ("--module", "tests.cli.protocols")


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finished exploration of `t_look`."""
    monkeypatch.chdir(tmp_path)
    write(Path("t_look.yaml"), scenario("t_look", 2, ""))
    assert dpsim_("explore", "t_look.yaml", *MODULE, "--work", "night").code == 0
    return Path("night")


def test_a_resumed_exploration_runs_no_unit_again(night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed exploration prints the same text and runs no unit again. A faulty folder that forgets its units runs
    them again.
    """
    uncut = dpsim_("explore", "t_look.yaml", *MODULE)
    done: list[int] = []

    def counted(unit: Unit, *rest: Any) -> UnitResult:
        done.append(unit.number)
        return do(unit, *rest)

    monkeypatch.setattr(processes, "do", counted)
    resumed = dpsim_("explore", "t_look.yaml", *MODULE, "--resume", str(night))
    assert (resumed.code, resumed.out, done) == (0, uncut.out, [])
    monkeypatch.setattr(UnitFiles, "known", lambda files, unit: None)
    assert dpsim_("explore", "t_look.yaml", *MODULE, "--resume", str(night)).out == uncut.out
    assert done != []


@pytest.mark.parametrize("option", ["--all-up-to", "--swarm"])
def test_worlds_of_a_set_are_kept(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("t_look.yaml"), scenario("t_look", 2, ""))
    words = ["explore", "t_look.yaml", *MODULE, option, "ranks=2" if option == "--all-up-to" else "4:delay"]
    first = dpsim_(*words, "--work", "night")
    assert first.code == 0, first.err
    monkeypatch.setattr(processes, "do", None)
    assert dpsim_(*words, "--resume", "night").out == first.out
    other = dpsim_(*words[:4], "--resume", "night")
    assert other.code == 2
    assert other.err.startswith(f"dpsim: night: has the work of another choice of worlds: {option} ")


REFUSED = [
    (["t_two.yaml"], "has the work of another scenario: t_look ("),
    (["t_look.yaml", "--strategy", "dpor"], "has the work of another strategy: portfolio; this is dpor"),
    (["t_look.yaml", "--seed", "3"], "has the work of another seed: 0; this is 3"),
    (["t_look.yaml", "--off", "HANG:*"], "has the work of another scenario: t_look ("),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_resume_refuses_the_work_of_another_exploration(words: list[str], said: str, night: Path) -> None:
    write(Path("t_two.yaml"), scenario("t_two", 2, ""))
    answer = dpsim_("explore", *words, *MODULE, "--resume", str(night))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: night: {said}")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("key", ["dpsim", "program"])
def test_resume_refuses_the_work_of_another_version_or_program(
    key: str, night: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in the source of dpsim or of the protocol is enough to refuse the folder."""
    if key == "dpsim":
        monkeypatch.setattr(sameness, "digest_of_dpsim", lambda: "0" * 64)
    else:
        read = sameness._bytes_of
        monkeypatch.setattr(sameness, "_bytes_of", lambda file: read(file) + b"#" * (file.name == "protocols.py"))
    answer = dpsim_("explore", "t_look.yaml", *MODULE, "--resume", str(night))
    assert answer.code == 2
    assert answer.err.startswith(f"dpsim: night: has the work of another {key}: ")


def test_work_and_resume_refuse_folders_that_they_cannot_use(night: Path) -> None:
    for words, said in [
        (["--work", "night"], "night: has the work of an earlier exploration; --resume goes on with it"),
        (["--resume", "none"], "none: has no work.json; expected a folder that --work wrote"),
        (["--work", "a", "--resume", "b"], "--resume: not together with --work; --resume also keeps what it does"),
    ]:
        answer = dpsim_("explore", "t_look.yaml", *MODULE, *words)
        assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")
    assert json.loads((night / "work.json").read_text())["strategy"] == "portfolio"
