"""Tests of two jobs on one machine that open the same port: one of them gets it, and neither leaves anything behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from real.ports import listen
from tests import ROOT
from tests.cli.commands import write

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.slow]

SCENARIO = """
name: clash
protocol: {name: t_clash, params: {ranks: 2}}
limits: {stall: 60s}
"""

JOBS = 2


def at_once(tmp_path: Path, module: str, files: list[Path], **environ: str) -> list[tuple[int, str]]:
    """Runs each file as a separate job at the same time. Returns the exit codes and the outputs."""
    for name in ("told", "temporary", "work"):
        (tmp_path / name).mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": str(ROOT), **environ}
    command = [sys.executable, "-m", "dpsim.cli", "run", "--module", module, "--backend", "gloo"]
    jobs = [
        subprocess.Popen(
            [*command, str(file)],
            env=environment,
            cwd=tmp_path / "work",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for file in files
    ]
    said = [job.communicate(timeout=120)[0].decode() for job in jobs]
    assert list((tmp_path / "temporary").iterdir()) == []
    return [(job.returncode, text) for job, text in zip(jobs, said, strict=True)]


@pytest.mark.parametrize("turn", range(3))
def test_of_two_jobs_one_gets_the_port(tmp_path: Path, turn: int) -> None:
    """Rank 0 of each job opens the port, and keeps it until both have tried."""
    free = listen(0, 0)
    assert free is not None
    with free:
        port = free.getsockname()[1]
    file = write(tmp_path / "clash.yaml", SCENARIO)
    environment = {"CLASH_PORT": str(port), "CLASH_FOLDER": str(tmp_path / "told"), "CLASH_JOBS": str(JOBS)}
    done = at_once(tmp_path, "tests.real.clash", [file] * JOBS, **environment)
    assert [code for code, _ in done] == [0] * JOBS, done
    told = [json.loads(one.read_text()) for one in (tmp_path / "told").glob("job-*")]
    assert sorted(opened for opened, _ in told) == [False, True]
    # In the job without a store, rank 1 joins the store of the other job. A port does not show which job listens there.
    assert [joined for _, joined in told] == [True, True]
    again = listen(0, port)
    assert again is not None, "a process of the two jobs still listens on the port"
    again.close()
