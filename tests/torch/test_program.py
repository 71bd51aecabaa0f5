"""Tests of a script and a function. dpsim proves the correct ones. If one rank omits a call, dpsim names the user's
line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.campaign.properties import DoesNotHold
from dpsim.cli.app import app
from dpsim.testing import torch_holds
from dpsim.torch import nursery
from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")

LINES = (PROGRAMS / "script.py").read_text().splitlines()
LINE = next(number for number, line in enumerate(LINES, 1) if "dist.all_reduce" in line)


@pytest.mark.slow
def test_a_script_holds_and_its_twin_is_blamed() -> None:
    found = explored("script.py", 2, args=["--steps", "3"])
    assert found.verdict == "proven"
    assert "no default time-out of a collective passes" in found.assumes
    twin = explored("script.py", 2, args=["--steps", "3", "--skipped", "1"])
    assert blamed(twin) == ("HANG:COLLECTIVE:MISSING_RANK", (1,), f"script.py:{LINE}")
    culprit = twin.findings[0].culprit
    assert culprit is not None
    assert (culprit.step, culprit.site) == (1, "script:train+5.all_reduce")


@pytest.mark.slow
def test_the_command_takes_a_target(tmp_path: Path) -> None:
    command = ["explore", "--torch", str(PROGRAMS / "script.py"), "--ranks", "3", "--json", "--save", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--", "--skipped", "0"])
    [row] = json.loads(result.stdout)["scenarios"]
    assert (result.exit_code, row["verdict"]) == (1, "violated")
    assert "script.py" in result.stdout


def test_torch_holds_raises_for_a_rank_that_skips_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert torch_holds(f"{PROGRAMS / 'plain.py'}:averages", ranks=2).verdict == "proven"
    with pytest.raises(DoesNotHold, match="HANG:COLLECTIVE"):
        torch_holds(f"{PROGRAMS / 'plain.py'}:skips", ranks=2)


def test_without_torch_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(nursery, "_open", {})
    result = CliRunner().invoke(app, ["run", "--torch", str(PROGRAMS / "script.py"), "--", "--steps", "7"])
    assert result.exit_code == 2
    assert "torch is not installed" in result.output


def test_a_file_that_is_not_there_is_bad_input() -> None:
    result = CliRunner().invoke(app, ["explore", "--torch", "no_such.py"])
    assert result.exit_code == 2
    assert "no_such.py" in result.output


KILLED = """
import os, signal
from dpsim.torch.nursery import nursery
print(nursery().folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_folder() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())
    assert (done.returncode, folder.name[:12]) == (-signal.SIGKILL, "dpsim-ranks-")
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not folder.exists()
