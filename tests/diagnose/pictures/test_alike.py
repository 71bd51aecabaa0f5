"""Tests that one program has one picture in logical time: from the simulation, gloo, NCCL, a recording and dumps.

The tests compare the drawn model: the place of each op, the waits, missing calls and marks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsim.cli.explain import job_of_folder
from dpsim.diagnose.pictures.of_job import picture_of_job
from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.op import DrawnOp, Picture
from dpsim.recorded.importing import imported
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, load_scenario, scenario_from
from tests.agreeing import HEALTHY, SKIP
from tests.cli.commands import write
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_judgement import steps
from tests.diagnose.recordings.made import MadeJob as MadeRecording

RANKS = 4
LEFT_OUT = 2


def of_run(scenario: Scenario, backend: str = "sim") -> Picture:
    result = run_scenario(scenario, backend)
    return picture_of_run(result.world, result.run, result.findings, "x", in_ticks=True)


def of_folder(folder: Path) -> Picture:
    return picture_of_job(*job_of_folder(folder), "x")


def dumps(folder: Path, absent: int = LEFT_OUT) -> Path:
    """Writes dumps of three steps, and of a fourth whose first call one rank omits."""
    folder.mkdir()
    job = steps(MadeJob(RANKS, "gloo"), 3)
    job.call([rank for rank in range(RANKS) if rank != absent], "all_reduce", 16, line=10)
    job.write(folder)
    return folder


def recording(folder: Path) -> Path:
    """Writes a recording of the job of `dumps`."""
    folder.mkdir()
    job = MadeRecording(folder, RANKS)
    for rank in range(RANKS):
        for _ in range(3):
            for op, elements, line in (("all_reduce", 16, 10), ("all_gather", 4, 11), ("barrier", 0, 12)):
                job.call(rank, op, elements=elements, lines=[["step", f"train.py:{line}"]])
        if rank != LEFT_OUT:
            job.call(rank, "all_reduce", over=False, lines=[["step", "train.py:10"]])
    return job.gathered()


def imported_scenario(folder: Path) -> Scenario:
    return scenario_from(imported(job_of_folder(dumps(folder))[0], "job") | {"limits": {"stall": "2s"}})


def model(picture: Picture, first: int = 0) -> dict[str, Any]:
    """Returns what the picture shows of the calls. `first`: the number of a group's first call. Names of groups and
    sites are omitted, because they differ between a job and its program.
    """

    def call(op: DrawnOp) -> tuple[Any, ...]:
        assert op.key is not None
        return op.said.split()[0].split("[")[0], op.key[1] - first

    calls = [op for op in picture.ops if op.key is not None]
    return {
        "calls": sorted(
            (op.rank, op.lane, *call(op), op.begin, op.arrival, op.end, op.label, op.marked) for op in calls
        ),
        "holes": sorted((hole.rank, *call(hole.op), hole.op.begin, hole.culprit) for hole in picture.holes),
        "culprits": tuple(picture.culprits),
        "undecided": picture.undecided,
    }


def test_dumps_a_recording_and_the_simulation(tmp_path: Path) -> None:
    of_dumps, of_recording = of_folder(dumps(tmp_path / "dumps")), of_folder(recording(tmp_path / "recording"))
    simulated = model(of_run(imported_scenario(tmp_path / "job")))
    assert simulated["holes"]
    assert simulated["culprits"] == (LEFT_OUT,)
    assert model(of_dumps, first=1) == model(of_recording, first=1) == simulated


def test_twin_another_rank_left_the_call_out(tmp_path: Path) -> None:
    healthy, other = (model(of_folder(dumps(tmp_path / str(rank), rank)), first=1) for rank in (LEFT_OUT, 1))
    assert {key for key in healthy if healthy[key] != other[key]} == {"calls", "holes", "culprits"}


@pytest.mark.slow
def test_a_run_on_gloo_has_the_picture_of_the_simulation(dpsim_backend: Callable[..., Any], tmp_path: Path) -> None:
    dpsim_backend("gloo", size=RANKS)
    scenario = imported_scenario(tmp_path / "job")
    assert model(of_run(scenario, "gloo")) == model(of_run(scenario))


@pytest.mark.gpu(2)
def test_a_run_on_nccl_has_the_picture_of_the_simulation(dpsim_backend: Callable[..., Any], tmp_path: Path) -> None:
    dpsim_backend("nccl", size=2)
    text = (HEALTHY + SKIP).replace("ranks: 3", "ranks: 2")
    for number, one in enumerate((text, HEALTHY.replace("ranks: 3", "ranks: 2"))):
        scenario = load_scenario(write(tmp_path / f"{number}.yaml", one))
        assert model(of_run(scenario, "nccl")) == model(of_run(scenario))
