"""Tests of pictures of jobs: they show the missing call, and the same times as the simulation of the same calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.cli.explain import job_of_folder
from dpsim.diagnose.pictures.of_job import picture_of_job
from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.op import Picture
from dpsim.recorded.importing import imported
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_judgement import HANGS, steps


def pictured(made: MadeJob, folder: Path) -> Picture:
    made.write(folder)
    return picture_of_job(*job_of_folder(folder), "job")


def blocked_at(picture: Picture) -> dict[int, str]:
    return {op.rank: op.label for op in picture.ops if op.begin is not None and op.end is None}


def test_a_call_that_a_rank_left_out(tmp_path: Path) -> None:
    picture = pictured(steps(MadeJob(4), 3, HANGS["absent"][0]), tmp_path)
    [hole] = picture.holes
    assert (hole.rank, hole.culprit, hole.op.key, picture.culprits) == (2, True, ("default_pg", 10), (2,))
    assert blocked_at(picture) == dict.fromkeys((0, 1, 3), "waits for rank 2")


def test_a_call_of_another_kind_is_marked_and_no_call_is_missing(tmp_path: Path) -> None:
    picture = pictured(steps(MadeJob(4), 3, HANGS["mismatched"][0]), tmp_path)
    assert not picture.holes
    assert [op.rank for op in picture.ops if op.marked] == [2]
    assert blocked_at(picture)[0] == "meets broadcast #10 of 16 Float of rank 2"


def test_a_job_that_ended_has_neither(tmp_path: Path) -> None:
    made = MadeJob(4)
    for _ in range(3):
        made.call(range(4), "all_reduce")
    picture = pictured(made, tmp_path)
    assert not picture.holes
    assert not blocked_at(picture)
    assert not picture.undecided


@pytest.mark.parametrize("name", ["absent", "surplus"])
def test_the_simulation_of_a_job_has_its_picture(name: str, tmp_path: Path) -> None:
    """Compares the calls, ticks, waits and missing calls of a job's picture with those of its simulation."""
    made = steps(MadeJob(4, "gloo"), 3, HANGS[name][0])
    job = pictured(made, tmp_path)
    result = run_scenario(scenario_from(imported(job_of_folder(tmp_path)[0], "job")))
    run = picture_of_run(result.world, result.run, result.findings, "job", in_ticks=True)
    times = [
        sorted((op.rank, op.key[1] - shift, op.begin, op.arrival, op.end) for op in one.ops if op.key is not None)
        for one, shift in ((job, 1), (run, 0))
    ]
    assert times[0] == times[1]
    assert {hole.rank for hole in job.holes} == {hole.rank for hole in run.holes} != set()
    assert blocked_at(job) == blocked_at(run)
