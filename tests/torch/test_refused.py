"""Tests of calls that dpsim does not support, and of targets that it cannot run. The command prints one error with the
user's line, and its exit code is 2.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from tests.torch.runs import PROGRAMS

pytest.importorskip("torch")

REFUSED = {
    "on_a_gpu": "torch.cuda",
    "moved_to_a_gpu": "torch.cuda.set_device",
    "remote": "torch.distributed.rpc.init_rpc",
    "symmetric_memory": "torch.distributed._symmetric_memory.empty",
    "shrinks": "torch.distributed.shrink_group",
    "hooks": "ProcessGroup._register_on_completion_hook",
    "queues": "Store.queue_push",
    "from_a_thread": "a call of torch.distributed from a thread that Python did not start",
    "sparse": "a tensor of layout torch.sparse_coo",
}
"""For each program of `refused.py`, a text of the error."""
WRONG = {
    "nothing.py": ("", "there is no file"),
    "nothing.py:main": ("", "there is no file"),
    "empty.py:main": ("x = 1", "empty.py has no function main"),
    "number.py:x": ("x = 1", "number.py has no function x"),
    "raises.py:main": ("raise ValueError('why')", "raises.py cannot be imported: raises.py:1: ValueError: why"),
    "words.py": ("not Python at all", "words.py is not Python: invalid syntax (words.py, line 1)"),
    "words.py:main": ("not Python at all", "words.py is not Python: invalid syntax (words.py, line 1)"),
}
"""Targets, the content of their file, and the command's error."""


def explored(target: str, *more: str) -> tuple[int, str]:
    """Explores the target, and returns the exit code and the output."""
    result = CliRunner().invoke(app, ["explore", "--torch", target, *more])
    return result.exit_code, result.output


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_is_not_covered_is_named_with_its_line(name: str) -> None:
    code, said = explored(f"{PROGRAMS / 'refused.py'}:{name}")
    assert code == 2
    assert REFUSED[name] in said
    assert "refused.py:" in said or name == "from_a_thread"
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("target", WRONG)
def test_a_target_that_cannot_be_run(target: str, tmp_path: Path) -> None:
    content, expected = WRONG[target]
    if content:
        (tmp_path / target.partition(":")[0]).write_text(content)
    code, said = explored(str(tmp_path / target))
    assert code == 2
    assert expected in " ".join(said.split())
    assert len(said.strip().splitlines()) <= 2
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_script_that_raises_is_a_finding(tmp_path: Path) -> None:
    """Explores a script that raises when Python runs it. The exception is a finding, because running the script is the
    program.
    """
    (tmp_path / "raises.py").write_text("raise ValueError('why')")
    code, said = explored(str(tmp_path / "raises.py"))
    assert code == 1
    assert "CRASH:VALUEERROR" in said
    assert "raises.py:1" in said


@pytest.mark.parametrize("ranks", ["0", "65", "two"])
def test_a_wrong_number_of_ranks(ranks: str) -> None:
    code, said = explored(str(PROGRAMS / "script.py"), "--ranks", ranks)
    assert code == 2
    assert "ranks" in said
    assert "Traceback" not in said
