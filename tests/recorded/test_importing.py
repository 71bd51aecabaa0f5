"""Tests that dpsim turns the dumps of a hung job into a scenario whose simulation has the same finding as the dumps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.cli.unchecked import unchecked
from dpsim.contract.ops import KIND, WHERE
from dpsim.diagnose.dumps.blocked_ranks import ranks_blocked_in
from dpsim.diagnose.dumps.job import job_of
from dpsim.diagnose.dumps.judgement import judge_job
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.diagnose.words import text
from dpsim.recorded import importing
from dpsim.recorded.repeatable import repeatable_calls
from dpsim.runner import Result, run_scenario
from dpsim.scenario import load_scenario, scenario_from
from tests.diagnose.dumps.made import MadeJob


def simulated(job: MadeJob, folder: Path, without: tuple[int, ...] = ()) -> Result:
    made = importing.imported(job_of(read_dumps(job.write(folder, without))), "hung")
    return run_scenario(scenario_from(made))


def found(result: Result) -> tuple[str, int] | None:
    primary = result.primary
    return None if primary is None or primary.culprit is None else (primary.klass, primary.culprit.rank)


def rounds(ranks: int, often: int = 3) -> MadeJob:
    job = MadeJob(ranks)
    for _ in range(often):
        job.call(range(ranks))
        job.call(range(ranks), "broadcast", line=11)
    return job


def test_a_healthy_job_holds(tmp_path: Path) -> None:
    """The report does not advise calls of `rank.decide`, since the user did not write the program."""
    result = simulated(rounds(4), tmp_path)
    assert (result.verdict, unchecked(result)) == ("held", [])


def test_a_hang_that_the_simulation_does_not_show(tmp_path: Path) -> None:
    """All ranks make the same call, and it does not end: a network may be the cause."""
    job = rounds(4)
    for own in job.entries.values():
        own[-1].update(state="scheduled", retired=False, profiling_name="nccl:ALLTOALL_BASE")
    (tmp_path / "dumps").mkdir()
    job.write(tmp_path / "dumps")
    done = CliRunner().invoke(app, ["import", str(tmp_path / "dumps"), "-o", str(tmp_path / "hung.yaml")])
    assert "the simulation: HELD\nnote: no hang: the calls lack its cause" in done.output
    assert "all_to_all default_pg 16 float32 open" in " ".join((tmp_path / "hung.yaml").read_text().split())


def test_an_imported_job_with_an_absent_call_hangs_in_the_simulation(tmp_path: Path) -> None:
    job = rounds(4)
    job.call((0, 1, 3))
    assert found(simulated(job, tmp_path)) == ("HANG:COLLECTIVE:MISSING_RANK", 2)


def test_an_imported_job_with_another_operation_is_a_mismatch(tmp_path: Path) -> None:
    job = rounds(4)
    job.call((0, 1, 3))
    job.call((2,), "broadcast", line=11)
    klass, rank = found(simulated(job, tmp_path)) or ("", -1)
    assert (klass.startswith("MISMATCH:COLLECTIVE:"), rank) == (True, 2)  # rank 2 also starts no third round


def test_an_imported_job_with_another_size_or_type_is_a_mismatch(tmp_path: Path) -> None:
    job = rounds(4)
    job.call((0, 1, 3), dtype="BFloat16")
    job.call((2,), dtype="Half")
    assert found(simulated(job, tmp_path)) == ("MISMATCH:COLLECTIVE:DTYPE", 2)


def test_a_rank_that_left_no_dump_dies_where_its_peers_wait(tmp_path: Path) -> None:
    """The ranks 0 and 1 make calls that rank 3 does not. It makes the finished calls of rank 1 that it shares."""
    job = MadeJob(4, groups={"one": [0, 1], "two": [2, 3], "three": [1, 3]})
    for _ in range(3):
        job.call(range(4))
        for group in ("one", "two", "three"):
            job.call(job.groups[group], "all_gather", group=group, line=11)
        job.transfer(1, 3)
        job.transfer(2, 3)
    job.call((0, 1, 2), "broadcast", line=12)
    made = importing.imported(job_of(read_dumps(job.write(tmp_path, without=(3,)))), "hung")
    result = run_scenario(scenario_from(made))
    assert made["faults"] == [{"kind": "die", "rank": 3, "at": {"communicator": "default_pg", "seq": 3}}]
    assert found(result) == ("HANG:COLLECTIVE:DEAD_RANK", 3)
    assert {one.culprit.where for one in result.findings if one.culprit} == {"train.py:12"}


def test_a_rank_that_left_no_dump_lives_if_another_did_not_join(tmp_path: Path) -> None:
    """The dump of rank 2 shows that it skipped the last call, so the simulation blames rank 2, and not rank 1."""
    job = rounds(3)
    job.call((0, 1))
    (tmp_path / "dumps").mkdir()
    job.write(tmp_path / "dumps", without=(1,))
    done = CliRunner().invoke(app, ["import", str(tmp_path / "dumps"), "-o", str(tmp_path / "hung.yaml")])
    assert "the simulation: VIOLATED  HANG:COLLECTIVE, rank 2\n" in done.output
    assert "note: rank 1 left no dump; in the scenario, rank 2 is the cause\n" in done.output
    assert "faults" not in (tmp_path / "hung.yaml").read_text()


def test_rings_that_begin_with_different_calls(tmp_path: Path) -> None:
    """Each ring holds four calls. That of rank 2 begins with an earlier one, because rank 2 made fewer."""
    job = rounds(4)
    job.call((0, 1, 3))
    for rank, own in job.entries.items():
        job.entries[rank] = own[-4:]
    dumped = job_of(read_dumps(job.write(tmp_path)))
    assert [len(own) for own in repeatable_calls(dumped, ranks_blocked_in(dumped)).calls.values()] == [4, 4, 3, 4]
    assert found(run_scenario(scenario_from(importing.imported(dumped, "hung")))) == (
        "HANG:COLLECTIVE:MISSING_RANK",
        2,
    )
    assert importing.numbers_text(dumped, judge_job(dumped).culprit).startswith("all_reduce #7 on default_pg is #3 ")


def test_a_transfer_that_is_not_received(tmp_path: Path) -> None:
    job = rounds(2)
    job.transfer(0, 1, size=100_000, sides="recv")
    [finding] = simulated(job, tmp_path).findings
    assert (finding.klass, finding.culprit) == ("HANG:P2P:UNMATCHED_RECV", None)
    assert text(finding.ground[-1]).endswith("rank 1 made one too many, or rank 0 one too few")


def test_the_steps_of_a_job_are_its_rounds(tmp_path: Path) -> None:
    made = importing.imported(job_of(read_dumps(rounds(2).write(tmp_path))), "hung")
    rows = made["protocol"]["params"]["calls"][0]
    assert [row for row in rows if row.startswith("step")] == ["step 0", "step 1", "step 2"]
    assert rows[1] == "all_reduce default_pg 16 float32 sum @train.py:10"


def test_a_job_without_rounds_has_no_steps(tmp_path: Path) -> None:
    made = importing.imported(job_of(read_dumps(rounds(2, 2).write(tmp_path))), "hung")
    assert not [row for row in made["protocol"]["params"]["calls"][0] if row.startswith("step")]


def test_too_many_calls_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MOST", 10)
    with pytest.raises(importing.CannotImport, match="12 calls; expected at most 10"):
        importing.imported(job_of(read_dumps(rounds(2).write(tmp_path))), "hung")


def test_the_command_import_writes_a_scenario_that_hangs_like_the_job(tmp_path: Path) -> None:
    job = rounds(4)
    job.call((0, 1, 3))
    (tmp_path / "dumps").mkdir()
    job.write(tmp_path / "dumps")
    done = CliRunner().invoke(app, ["import", str(tmp_path / "dumps"), "-o", str(tmp_path / "hung.yaml")])
    assert done.exit_code == 0, done.output
    assert f"{tmp_path / 'hung.yaml'}: 27 calls of 4 ranks\n" in done.output
    assert "the job:        HANG  HANG:COLLECTIVE  rank 2" in done.output
    assert "the simulation: VIOLATED  HANG:COLLECTIVE, rank 2" in done.output
    assert "the numbers:    all_reduce #7 on default_pg is #6 in dpsim run" in done.output
    result = run_scenario(load_scenario(tmp_path / "hung.yaml"))
    assert result.met
    assert {finding.culprit.where for finding in result.findings if finding.culprit} == {"train.py:10"}


def test_the_command_on_a_folder_without_dumps(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["import", str(tmp_path), "-o", str(tmp_path / "hung.yaml")])
    assert done.exit_code == 2
    assert not (tmp_path / "hung.yaml").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"groups": {"world": [0]}}, "rank 1 is no member"),
        ({"groups": {"world": [0, 1, 2]}}, "are no ranks of 2"),
        ({"calls": [["all_reduce"], []]}, "is no call"),
        ({"calls": [["broadcast world 1 int32 root 7"], []]}, "rank 7 is no member"),
    ],
)
def test_wrong_parameters_of_a_recorded_job_are_refused(change: dict[str, Any], said: str) -> None:
    row = "all_reduce world 4 float32 sum"
    params = {"groups": {"world": [0, 1]}, "calls": [[row], [row]], **change}
    with pytest.raises(ValueError, match=said):
        scenario_from({"name": "x", "protocol": {"name": "recorded", "params": params}})


@pytest.mark.parametrize(
    ("line", "place"),
    [("train.py:42", "train.py:42"), ("josé/train.py:42", "josé/train.py:42"), ("", "dpsim/recorded/program.py:")],
)
def test_the_place_of_a_call_is_its_recorded_line(line: str, place: str) -> None:
    row = f"all_reduce world 4 float32 sum{' @' * bool(line)}{line}"
    params = {"groups": {"world": [0, 1]}, "calls": [[row], [row]]}
    run = run_scenario(scenario_from({"name": "x", "protocol": {"name": "recorded", "params": params}})).run
    [where] = {raw[WHERE] for journal in run.journals for raw in journal if raw[KIND] == "collective"}
    assert where.startswith(place)


DATA = os.environ.get("DPSIM_DATA")


@pytest.mark.skipif(not DATA, reason="DPSIM_DATA names no folder with real dumps (flight_recorder)")
@pytest.mark.parametrize("case", ["missing", "size", "type", "died", "healthy"])
def test_imported_real_dumps_have_the_verdict_of_explain(case: str) -> None:
    """Imports real dumps of a job on four H200 GPUs. The simulation reports the class and the rank that `judge_job`
    reads from the dumps.
    """
    job = job_of(read_dumps(Path(DATA or "") / "flight_recorder" / case))
    told = judge_job(job)
    came = found(run_scenario(scenario_from(importing.imported(job, case))))
    assert came == (None if told.culprit is None else (told.klass, *told.culprit.ranks))


@pytest.mark.parametrize("more", [(0,), (0, 1)])
def test_a_contradiction_of_job_and_simulation_is_named(tmp_path: Path, more: tuple[int, ...]) -> None:
    """Rank 0 makes one call more than ranks 1 and 2, which ended. The twin: rank 2 leaves out the call."""
    job = rounds(3)
    job.call(more)
    (tmp_path / "dumps").mkdir()
    job.write(tmp_path / "dumps")
    done = CliRunner().invoke(app, ["import", str(tmp_path / "dumps"), "-o", str(tmp_path / "hung.yaml")])
    lines = dict(line.split(":", 1) for line in done.output.splitlines())
    contradicts = lines["the simulation"].endswith(("rank 1", "ranks 1, 2")) and lines["the job"].endswith("  rank 0")
    assert ("note: the two name different ranks" in done.output) == contradicts
    if contradicts:
        assert "culprit" not in (tmp_path / "hung.yaml").read_text()
    else:
        assert more == (0, 1) or "rank" not in lines["the simulation"]
