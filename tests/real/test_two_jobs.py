"""Two jobs on one machine that want the same port: one of them gets it, and nothing is left of either."""

from __future__ import annotations

import contextlib
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
protocol: {name: t_clash}
topology: {data_parallel_size: 2}
limits: {stall: 60s}
workload: {requests: [{prompt_tokens: 1, output_tokens: 1}]}
"""

JOBS = 2


START = """
name: start
protocol: {{name: t_hurried, form: "{form}"}}
topology: {{data_parallel_size: 2}}
config: {{max_num_batched_tokens: 3, max_num_seqs: 1, cudagraph_capture_sizes: [1], cudagraph_mode: FULL{ports}}}
limits: {{stall: 30s}}
workload: {{requests: [{{prompt_tokens: 1, output_tokens: 1}}]}}
"""


def at_once(tmp_path: Path, module: str, files: list[Path], **environ: str) -> list[tuple[int, str]]:
    """Run each file as a job of its own: how it ended, and what it said."""
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


def free_ports() -> list[int]:
    """Ten that nobody else on this machine has now."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(listener) for _ in range(10) if (listener := listen(0, 0)) is not None]
        return [listener.getsockname()[1] for listener in listeners]


@pytest.mark.parametrize(
    ("form", "lists", "up"),
    [("0.33", 1, True), ("0.14", 1, False), ("0.14", 2, True)],
    ids=["published", "one list", "lists of their own"],
)
def test_two_groups_on_one_host(tmp_path: Path, form: str, lists: int, up: bool) -> None:
    """In form 0.14 with the same list, members of one come to a port of the other: they fail in time, and say so."""
    free = free_ports()
    own = [f", _data_parallel_master_port_list: {ports}" for ports in (free[:5], free[5:] if lists == 2 else free[:5])]
    texts = [START.format(form=form, ports=ports) for ports in own]
    files = [write(tmp_path / f"start{number}.yaml", text) for number, text in enumerate(texts)]
    folder = tmp_path / "told"
    done = at_once(tmp_path, "tests.real.hurried", files, HURRIED_FOLDER=str(folder), HURRIED_JOBS=str(JOBS))
    codes, said = [code for code, _ in done], "\n".join(text for _, text in done)
    assert "HANG" not in said
    if up:
        assert codes == [0, 0], said
    else:
        assert set(codes) <= {0, 1}, said
        assert 1 in codes, said
        assert "another program listens" in said


@pytest.mark.parametrize("turn", range(3))
def test_of_two_jobs_one_gets_the_port(tmp_path: Path, turn: int) -> None:
    """Rank 0 of each job opens it, and keeps it until both have tried."""
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
    # Of the job that has no store, the other rank has reached that of the first: a port says nothing of who listens.
    assert [joined for _, joined in told] == [True, True]
    again = listen(0, port)
    assert again is not None, "somebody is left that listens"
    again.close()
