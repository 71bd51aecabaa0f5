"""Tests `dpsim scenario from-vllm`: scenarios on stdout or in a file, ignored flags on stderr, errors in one line."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from tests.cli.commands import dpsim_

COMMAND = "vllm serve m -dp 2 --enable-expert-parallel --port 80"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_scenario_on_stdout_that_runs(tmp_path: Path) -> None:
    answer = dpsim_("scenario", "from-vllm", COMMAND)
    assert answer.code == 0
    assert answer.out.startswith("# Made by `dpsim scenario from-vllm` from a command line of vLLM.\n")
    assert "dpsim: ignored: --port: of the API server\n" in answer.err
    (tmp_path / "mine.yaml").write_text(answer.out)
    assert dpsim_("run", "mine.yaml").code == 0


def test_a_scenario_in_a_file(tmp_path: Path) -> None:
    answer = dpsim_("scenario", "from-vllm", COMMAND, "-o", "mine.yaml")
    assert (answer.code, answer.out) == (0, "")
    assert "dpsim: wrote mine.yaml\ndpsim: next: dpsim run mine.yaml, then dpsim explore mine.yaml; " in answer.err
    assert (tmp_path / "mine.yaml").read_text() == dpsim_("scenario", "from-vllm", COMMAND).out


def test_from_vllm_reads_standard_input() -> None:
    words = ["scenario", "from-vllm", "-", "--release", "0.33"]
    done = CliRunner().invoke(app, words, input=f"# serve\n{COMMAND} \\\n  -tp 2\n")
    assert done.exit_code == 0
    assert "tensor_parallel_size: 2" in done.stdout
    assert "parallel_rules: '0.33'" in done.stdout


def test_errors_in_one_line() -> None:
    for words, says in {
        (f"{COMMAND} --max-num-seq 2",): "dpsim: unknown flag --max-num-seq; did you mean '--max-num-seqs'?\n",
        (f"{COMMAND} --enable-dbo",): "dpsim: vLLM refuses this (rule of VllmConfig: microbatches need a backend",
        ("",): "dpsim: no command that serves: expected `vllm serve MODEL ...`; got nothing\n",
        (COMMAND, "--release", "9"): "dpsim: --release: dp_batch has no form '9'; expected one of source-000",
        (COMMAND, "-o", "nowhere/mine.yaml"): "nowhere/mine.yaml: No such file or directory\n",
    }.items():
        answer = dpsim_("scenario", "from-vllm", *words)
        assert (answer.code, answer.out) == (2, "")
        assert says in answer.err
        assert "Traceback" not in answer.err


def test_a_write_that_fails_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """If dpsim cannot write the scenario file, the error names that file.

    The faulty twin prints `Input/output error` without a file name.
    """

    def fails(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("dpsim.trace.appearing.appearing", fails)
    answer = dpsim_("scenario", "from-vllm", COMMAND, "-o", "mine.yaml")
    assert answer.code == 2
    assert answer.err.endswith("dpsim: mine.yaml: Input/output error\n")
