"""Tests that a recorded job makes the same calls as a plain one, and that the recording contains them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.contract.recording import CALL
from dpsim.diagnose.recordings.job import of_newest_job, read_every
from tests import ROOT
from tests.explained import explain_recordings
from tests.properties import nightly_but
from tests.real.record.recorded import environment, finished, started

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

CALLING = str(ROOT / "tests" / "real" / "record" / "calling.py")


@pytest.mark.slow
def test_a_recorded_job_makes_the_same_calls(tmp_path: Path) -> None:
    """Compares the jobs by gloo's own recorder. The calls include those of DDP and functional ones."""
    plain = finished(started([CALLING], 2, environment(None)))
    recorded = finished(started([CALLING], 2, environment(tmp_path)))
    assert [json.loads(out) for out in recorded] == [json.loads(out) for out in plain]
    recording = of_newest_job(read_every(tmp_path))[1]
    calls = [(record.op, record.peer) for record in recording.records if record.kind == CALL]
    for expected in (
        ("all_reduce", -1),
        ("broadcast", 1),
        ("reduce", 1),
        ("gather", 0),
        ("scatter", 1),
        ("send", 0),
        ("recv", 0),
        ("barrier", -1),
    ):
        assert expected in calls, expected
    assert (recording.missed, recording.dropped, recording.end) == (0, 0, "ended")
    assert recording.records[0].label == "group_1", "the recording begins with the members of the pair"
    first = next(record for record in recording.records if record.kind == CALL)
    assert first.reduction == "max"
    assert first.place.line.startswith(f"{CALLING}:")
    assert max(recording.counted.values()) > sum(op not in ("send", "recv") for op, _ in calls) - 3, (
        "the calls that DDP makes count as well"
    )
    assert explain_recordings(tmp_path).outcome == "finished"


@pytest.mark.slow
def test_an_exception_is_in_the_recording(tmp_path: Path) -> None:
    for process in started([CALLING], 2, {**environment(tmp_path), "RAISES": "1"}):
        process.communicate(timeout=120)
    found = explain_recordings(tmp_path)
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks) == ("failed", (1,))
    assert found.said == "rank 1 raised ValueError: as it was asked to"


KILLED = """
import os, signal
import torch, torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
for _ in range(10):
    dist.all_reduce(x)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_written(tmp_path: Path) -> None:
    processes = started(["-c", KILLED], 2, environment(tmp_path))
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
    recordings = of_newest_job(read_every(tmp_path))
    assert len(recordings) == 2
    for recording in recordings.values():
        assert len(recording.records) == 10
        assert (recording.end, recording.records[-1].op) == ("runs", "all_reduce")


def test_the_command_becomes_the_job(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dpsim.cli", "record", "-o", str(tmp_path / "out"), "--", sys.executable, "-c"]
    code = "import os, sys; print(os.environ['DPSIM_RECORD']); sys.exit(7)"
    told = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*words, code], env=told, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (7, f"{tmp_path / 'out'}\n")
    assert "then: dpsim explain" in done.stderr


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["record", "-o", str(tmp_path), "--", "no-such-launcher", "train.py"])
    assert done.exit_code == 2
    assert "no-such-launcher: no such command" in done.output


def test_a_sitecustomize_of_the_environment_runs_as_before(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.stdout.write('theirs ')\n")
    told = environment(tmp_path / "out")
    told["PYTHONPATH"] = os.pathsep.join((told["PYTHONPATH"], str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", "print('ours')"], env=told, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "theirs ours\n"
    assert not (tmp_path / "out").exists(), "a process that imports no torch has no recording"


FULL = """
import errno, os, sys
import torch, torch.distributed as dist

if sys.argv[2] == "full":
    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")
    os.posix_fallocate = full
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(4))
"""


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["full", "free"])
def test_a_full_disk_is_reported_once_and_the_job_continues(disk: str, tmp_path: Path) -> None:
    told = {**environment(tmp_path / "recording"), "RANK": "0"}
    words = [sys.executable, "-c", FULL, str(tmp_path / "store"), disk]
    done = subprocess.run(words, env=told, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stderr.count("dpsim: rank 0 is not recorded: [Errno 28] No space left on device")
    there = [*(tmp_path / "recording").iterdir()]
    assert (said, bool(there)) == ((1, False) if disk == "full" else (0, True))


ENDS_AT_ONCE = """
import torch, torch.distributed as dist
from real.record import watching

watching.EVERY_S = 0.0  # the recorder's thread is nearly always within a call of C++
dist.init_process_group("gloo", init_method="file://" + {store!r}, rank=0, world_size=1)
dist.all_reduce(torch.ones(4))
"""


@pytest.mark.parametrize("times", nightly_but([2, 8], lambda times: times == 2))
def test_a_process_that_ends_is_not_aborted(times: int, tmp_path: Path) -> None:
    """Runs a process that ends while a recorder's thread runs. Python ends such threads by an exception, which C++ code
    must not see. Otherwise the process would abort.
    """
    for number in range(times):
        told = {**environment(tmp_path / "recording"), "RANK": "0"}
        script = ENDS_AT_ONCE.format(store=str(tmp_path / f"store{number}"))
        done = subprocess.run([sys.executable, "-c", script], env=told, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


CHILDREN = """
import multiprocessing, sys
import torch, torch.distributed as dist


def member(rank, store, raises):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    dist.all_reduce(torch.ones(4))
    if rank == raises:
        raise ValueError("as it was asked to")


if __name__ == "__main__":
    how, store, raises = sys.argv[1], "file://" + sys.argv[2], int(sys.argv[3])
    if how == "torch":
        torch.multiprocessing.spawn(member, (store, raises), nprocs=2)
    else:
        context = multiprocessing.get_context(how)
        children = [context.Process(target=member, args=(rank, store, raises)) for rank in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn", "torch"])
@pytest.mark.parametrize("raises", [-1, 1])
def test_children_of_multiprocessing(how: str, raises: int, tmp_path: Path) -> None:
    """Runs children of multiprocessing. A forked child runs no `atexit`, and no child calls `sys.excepthook`."""
    (tmp_path / "parent.py").write_text(CHILDREN)
    words = [sys.executable, str(tmp_path / "parent.py"), how, str(tmp_path / "store"), str(raises)]
    told = environment(tmp_path / "recording")
    done = subprocess.run(words, env=told, capture_output=True, text=True, timeout=120)
    found = explain_recordings(tmp_path / "recording")
    if raises < 0:
        assert (done.returncode, found.outcome) == (0, "finished"), done.stderr
    else:
        assert found.culprit is not None
        assert (found.outcome, found.culprit.ranks) == ("failed", (1,))
        assert found.said == "rank 1 raised ValueError: as it was asked to"
