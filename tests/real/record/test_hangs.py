"""Tests of eight kinds of hangs of four gloo processes. From the recordings alone, dpsim names the rank and the user's
line.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from dpsim.diagnose.dumps.explanation import Explanation
from tests import ROOT
from tests.diagnose.dumps.test_gloo import LINES as OF_DUMPS
from tests.diagnose.dumps.test_gloo import PROGRAM, line_of
from tests.explained import explain_recordings
from tests.properties import nightly_but, of_night
from tests.real.record.recorded import environment, finished, started

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

LINES = {
    **OF_DUMPS,
    "group_order": "        dist.all_reduce(x, group=other)\n        dist.barrier()",
    "wrong_peer": "works = [dist.isend",
    "early_return": "time.sleep(600)\n",
    "stuck_host": "        time.sleep(600)\n    if odd",
}
"""For each kind, a text at the culprit's line or on the line before. A recording shows the line of a rank outside of
calls.
"""


def hang(kind: str, folder: Path) -> Explanation:
    told = {**environment(folder / "recording"), "HANGS_QUIET": "6"}
    processes = [
        process for rank in range(4) for process in started([str(PROGRAM), kind, str(rank), str(folder)], 1, told)
    ]
    try:
        for process in processes:
            process.communicate(timeout=120)
    finally:
        for process in processes:
            process.kill()
    return explain_recordings(folder / "recording")


@pytest.mark.parametrize("kind", nightly_but(LINES, lambda kind: kind == "wrong_peer"))
def test_a_real_hang(kind: str, tmp_path: Path) -> None:
    found = hang(kind, tmp_path)
    assert (found.outcome, found.culprit and found.culprit.ranks) == ("hang", (2,)), found
    assert found.culprit is not None
    if kind == "early_return":
        assert found.culprit.place.line.endswith(f"gloo_hangs.py:{PROGRAM.read_text().count(chr(10))}")
        return
    within = 1 if LINES[kind].startswith("def") else 0
    assert found.culprit.place.line.endswith(f"gloo_hangs.py:{line_of(LINES[kind]) + within}"), found.culprit


MOVING = """
import sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
x, rank = torch.ones(4), dist.get_rank()
for step in range(int(sys.argv[1])):
    if (step + rank) % 3 == 0:
        time.sleep(0.02 * rank)
    dist.all_reduce(x)
    works = [dist.isend(x, (rank + 1) % 3), dist.irecv(torch.ones(4), (rank - 1) % 3)]
    for work in works:
        work.wait()
"""


@pytest.mark.nightly
def test_healthy_and_moving_jobs_accuse_no_rank(tmp_path: Path) -> None:
    """Explains recordings during a running job, and at its end, in 5 jobs, and in 50 in a night of size 10. dpsim names
    no culprit in any of them.
    """
    outcomes, jobs = Counter[str](), of_night(50)
    for number in range(jobs):
        folder = tmp_path / str(number)
        processes = started(["-c", MOVING, str(20 + 20 * number)], 3, environment(folder))
        looked = 0
        while any(process.poll() is None for process in processes) and looked < 1 + number % 5:
            if len([*folder.glob("*.recording")]) == 3:
                found = explain_recordings(folder)
                assert found.culprit is None, found
                outcomes[found.outcome] += 1
                looked += 1
        finished(processes)
        found = explain_recordings(folder)
        assert (found.outcome, found.culprit) == ("finished", None)
        outcomes[found.outcome] += 1
    print(f"\n{sum(outcomes.values())} explanations of healthy jobs: {dict(outcomes)}")
    assert outcomes["moving"] >= jobs


@pytest.mark.nightly
def test_a_healthy_job_accuses_no_rank(tmp_path: Path) -> None:
    """The twin: a healthy job has no culprit."""
    found = hang("none", tmp_path)
    assert (found.outcome, found.culprit) == ("finished", None)


@pytest.mark.nightly
def test_a_program_that_holds_pythons_lock(tmp_path: Path) -> None:
    """Runs a rank that holds Python's lock. Its heartbeat stops like that of a dead rank, but its fault handler still
    writes lines.
    """
    holds = str(ROOT / "tests" / "real" / "record" / "holds.py")
    processes = started([holds, "600"], 2, environment(tmp_path))
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            processes[1].communicate(timeout=25)  # the fault handler's period is 15 s
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    found = explain_recordings(tmp_path)
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks) == ("hang", (1,)), found
    assert found.culprit.place.line.endswith("holds.py:15"), found.culprit
