"""Tests of what dpsim reads from the dumps of a job: the outcome, and the rank that caused it. Each hang has a healthy
twin.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsim.diagnose.dumps import deciding_waits
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.diagnose.dumps.text import as_text
from tests.diagnose.dumps.made import MadeJob

ALL = [0, 1, 2, 3]
PAIRS = {"a": [0, 1], "b": [2, 3]}


def steps(job: MadeJob, number: int, fault: Callable[[MadeJob], object] | None = None) -> MadeJob:
    """Adds steps of three calls on lines 10, 11 and 12 to the job. The fault adds the last calls."""
    for _ in range(number):
        job.call(ALL, "all_reduce", 16, line=10)
        job.call(ALL, "all_gather", 4, line=11)
        job.call(ALL, "barrier", 0, line=12)
    if fault is not None:
        fault(job)
    return job


def absent(job: MadeJob) -> None:
    job.call([0, 1, 3], "all_reduce", 16, line=10)


def skipped(job: MadeJob) -> None:
    """Rank 2 continues with the next call."""
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    job.call([2], "all_gather", 4, line=11)


def surplus(job: MadeJob) -> None:
    job.call([2], "all_reduce", 16, line=10)


def surplus_before(job: MadeJob) -> None:
    job.call(ALL, "all_reduce", 16, line=10)
    job.call([2], "all_reduce", 16, line=10)
    job.call([0, 1, 3], "all_gather", 4, line=11)


def mismatched(job: MadeJob) -> None:
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    job.call([2], "broadcast", 16, line=13)


def of_another_size(job: MadeJob) -> None:
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    job.call([2], "all_reduce", 1024, line=10)
    for own in job.entries.values():
        own[-1].update(retired=False, state="scheduled")


def of_another_type(job: MadeJob) -> None:
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    job.call([2], "all_reduce", 16, line=10, dtype="Half")
    for own in job.entries.values():
        own[-1].update(retired=False, state="scheduled")


def ended_wrongly(job: MadeJob) -> None:
    """Rank 2 calls a broadcast instead of an all_reduce. The call ends, and the next one hangs."""
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    job.call([2], "broadcast", 16, line=13)
    for own in job.entries.values():
        job.over(own[-1])
    job.call([0, 1, 3], "all_gather", 4, line=11)


HANGS = {
    "absent": (absent, "HANG:COLLECTIVE:MISSING_RANK", "train.py:10", 10),
    "skipped": (skipped, None, "train.py:10", 10),
    "surplus": (surplus, "HANG:COLLECTIVE:EXTRA_CALL", "train.py:10", 10),
    "surplus before": (surplus_before, None, "train.py:10", 11),
    "mismatched": (mismatched, "MISMATCH:COLLECTIVE:OP", "train.py:13", 10),
    "another size": (of_another_size, "MISMATCH:COLLECTIVE:COUNT", "train.py:10", 10),
    "another type": (of_another_type, "MISMATCH:COLLECTIVE:DTYPE", "train.py:10", 10),
    "ended wrongly": (ended_wrongly, "MISMATCH:COLLECTIVE:OP", "train.py:13", 10),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("library", ["nccl", "gloo", "nccl2"])
@pytest.mark.parametrize("what", HANGS)
def test_each_kind_of_hang_names_its_culprit(what: str, library: str, as_json: bool) -> None:
    fault, klass, line, seq = HANGS[what]
    found = steps(MadeJob(4, library), 3, fault).explained(as_json=as_json)
    assert found.outcome == "hang"
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.group, found.culprit.seq) == ((2,), "default_pg", seq)
    assert found.culprit.place.line == line
    assert klass is None or found.klass == klass
    assert found.ground


@pytest.mark.parametrize("library", ["nccl", "gloo"])
def test_a_job_that_ended_accuses_no_rank(library: str) -> None:
    """The twin of each hang: a job that ended has no culprit."""
    found = steps(MadeJob(4, library), 3).explained()
    assert (found.outcome, found.culprit, found.undecided_ranks) == ("finished", None, ())


def test_a_rank_without_a_dump_for_which_others_wait_is_blamed() -> None:
    job = steps(MadeJob(4), 2)
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    found = job.explained(without=[2])
    assert (found.outcome, found.klass) == ("hang", "HANG:COLLECTIVE:DEAD_RANK")
    assert found.culprit is not None
    assert found.culprit.ranks == (2,)


def test_a_rank_without_a_dump_for_which_no_rank_waits() -> None:
    found = steps(MadeJob(4), 2).explained(without=[2])
    assert (found.outcome, found.klass, found.confidence) == ("failed", "DEATH:RANK", "low")


def test_a_difference_explains_a_later_death() -> None:
    job = steps(MadeJob(4), 2, mismatched)
    found = job.explained(without=[3])
    assert found.culprit is not None
    assert found.culprit.ranks == (2,)


def test_a_chain_of_waits_names_ranks_in_different_groups() -> None:
    """Rank 2 waits in a call of another group, for which the others wait."""
    job = MadeJob(4, groups={"other": ALL})
    steps(job, 2)
    job.call([0, 1, 3], "all_reduce", 16, line=10)
    job.call([2], "all_reduce", 16, "other", line=14)
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.seq) == ((2,), 7)
    assert found.cycle == (0, 2)
    assert any("rank 2 -> ranks 0, 1, 3" in wait for wait in found.waits)


def chain() -> MadeJob:
    """Returns a job in which ranks 0 and 1 wait for ranks 2 and 3. Rank 2 waits for rank 3 in a group of two."""
    job = steps(MadeJob(4, groups=PAIRS), 2)
    for _ in range(3):
        job.call([2, 3], "all_reduce", 8, "b", line=30)
        job.call([0, 1], "all_reduce", 8, "a", line=30)
    job.call([2], "all_reduce", 8, "b", line=30)
    job.call([0, 1], "all_reduce", 8, "a", line=30)
    job.call([0, 1], "all_reduce", 16, line=10)
    return job


def test_a_chain_of_waits_ends_undecided_between_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report names the pair at the end of the chain. Two ranks have no majority, so it blames neither.

    The faulty twin reads the first wait of the chain instead of its end.
    """
    found = chain().explained()
    assert (found.outcome, found.culprit, found.undecided_ranks) == ("hang", None, (2, 3))
    assert found.said.startswith("rank 2 waits for rank 3,")
    ordered = deciding_waits._first_waits
    monkeypatch.setattr(deciding_waits, "_first_waits", lambda stands: ordered(stands)[::-1])
    assert chain().explained().undecided_ranks != (2, 3)


@pytest.mark.parametrize("fault", [absent, mismatched])
def test_a_majority_is_a_conclusion_and_no_fact_of_the_recorders(fault: Callable[[MadeJob], object]) -> None:
    found = steps(MadeJob(4), 3, fault).explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.confidence) == ((2,), "medium")


def test_two_ranks_have_no_majority() -> None:
    job = MadeJob(2)
    job.call([0, 1])
    job.call([0], "all_reduce", 16)
    job.call([1], "broadcast", 16, line=11)
    found = job.explained()
    assert (found.outcome, found.culprit, found.undecided_ranks) == ("hang", None, (0, 1))


def pipeline(number: int, fault: str = "") -> MadeJob:
    """Returns a pipeline of two stages, with two transfers and a broadcast in each step."""
    job = MadeJob(2)
    for step in range(number):
        for part in range(2):
            left_out = fault == "skip" and step == number - 1 and part == 1
            job.transfer(0, 1, sides="recv" if left_out else "both", line=20)
        again = fault == "repeat" and step == number - 1
        if again:
            job.transfer(0, 1, sides="send", line=20)
        if not (fault == "skip" and step == number - 1):
            job.call([0, 1], "broadcast", 4, line=21)
        else:
            job.call([0], "broadcast", 4, line=21)
    return job


@pytest.mark.parametrize("fault", ["skip", "repeat"])
def test_of_two_ranks_the_one_that_departs_from_its_habit(fault: str) -> None:
    found = pipeline(5, fault).explained()
    assert found.culprit is not None, found
    assert (found.culprit.ranks, found.culprit.place.line, found.confidence) == ((0,), "train.py:20", "medium")
    assert pipeline(5).explained().outcome == "finished"


def test_a_transfer_of_another_type_is_blamed() -> None:
    job = pipeline(4)
    job.transfer(0, 1)
    job.entries[1][-1].update(input_dtypes=["Int"], output_dtypes=["Int"], retired=False, state="scheduled")
    found = job.explained()
    assert (found.klass, found.culprit and found.culprit.ranks) == ("MISMATCH:TRANSFER:DTYPE", (1,))


def test_a_wrapped_ring_is_compared_where_both_have_calls() -> None:
    job = steps(MadeJob(4), 30, mismatched)
    for rank, own in job.entries.items():
        job.entries[rank] = own[-20 - 3 * rank :]
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.seq) == ((2,), 91)


def test_uneven_works_are_no_difference() -> None:
    """Checks that sizes of an all_to_all or gather may differ between members."""
    job = steps(MadeJob(4), 2)
    for rank in ALL:
        job.call([rank], "all_to_all", 4 + rank)
        job.call([rank], "gather", 4 * rank)
    assert job.explained().outcome == "finished"


def test_a_work_that_all_made_and_that_does_not_end() -> None:
    job = steps(MadeJob(4), 2)
    job.call(ALL)
    for own in job.entries.values():
        own[-1].update(retired=False, state="scheduled")
    found = job.explained()
    assert (found.outcome, found.klass, found.culprit) == ("undecided", "HANG:UNDECIDED", None)


def test_dumps_of_different_times_show_a_job_that_moves() -> None:
    """Rank 3 wrote its dump first. A call that is over on rank 0 needs rank 3, so the job was still running between the
    dumps.
    """
    job = steps(MadeJob(4), 3)
    for rank in (1, 2, 3):
        job.entries[rank] = job.entries[rank][:-rank]
    job.entries[3][-1].update(retired=False, state="scheduled")
    found = job.explained()
    assert (found.outcome, found.culprit) == ("moving", None)


@pytest.mark.parametrize(("age_s", "outcome"), [(0.0, "moving"), (30.0, "hang"), (-5.0, "hang")])
def test_the_age_of_a_dump_tells(age_s: float, outcome: str, tmp_path: Path) -> None:
    """The newest call is not older than the pauses between the calls before, so the job was still running."""
    job = MadeJob(4)
    job.now = time.time_ns() - 10**9
    steps(job, 3, absent).write(tmp_path)
    for file in tmp_path.iterdir():
        os.utime(file, ns=(job.now + int(age_s * 1e9),) * 2)
    found = judge_dumps(read_dumps(tmp_path))
    assert found.outcome == outcome
    assert (found.culprit is None) == (outcome == "moving")


def test_a_call_that_reads_completed_and_is_not_retired_is_not_over() -> None:
    """Checks calls with the state `completed` that are not retired. The host is still in the library's call, and the
    library queried an event that it had never recorded.
    """
    job = steps(MadeJob(4), 2, absent)
    for rank in (0, 1, 3):
        job.entries[rank][-1]["state"] = "completed"
    found = job.explained()
    assert (found.outcome, found.culprit and found.culprit.ranks) == ("hang", (2,))


def test_dumps_without_calls_accuse_no_rank() -> None:
    found = MadeJob(2).explained()
    assert (found.outcome, found.culprit) == ("undecided", None)


PUBLIC = os.environ.get("DPSIM_DATA")


@pytest.mark.skipif(not PUBLIC, reason="DPSIM_DATA names no folder with real dumps (flight_recorder/truth.json)")
def test_real_dumps_of_nccl_name_the_planted_culprit() -> None:
    import json

    folder = Path(PUBLIC or "") / "flight_recorder"
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    assert truth
    for name, told in truth.items():
        found = judge_dumps(read_dumps(folder / name))
        assert found.outcome == told["outcome"], name
        culprit = found.culprit
        assert (culprit and list(culprit.ranks)) == told.get("culprit_ranks"), name
        if culprit is not None:
            assert (culprit.group, culprit.seq) == (told["group"], told["seq"]), name


def test_a_call_that_a_rank_left_out_has_the_number_of_its_peer() -> None:
    """In a group of two, rank 3 broadcasts where its peer gathers for the fifth time. Both made the others alike."""
    job = MadeJob(4, groups={"dp[0, 2]": [0, 2], "dp[1, 3]": [1, 3]})
    for turn in range(5):
        job.call(range(4), line=5)
        for ranks in ([0, 2], [1, 3] if turn < 4 else [1]):
            job.call(ranks, "all_gather", group="dp[0, 2]" if 0 in ranks else "dp[1, 3]", line=6)
    job.call([3], "broadcast", group="dp[1, 3]", line=9)
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.op, found.culprit.seq) == ((3,), "all_gather", 5)
    assert found.waits == ("call #5 on dp[1, 3]: rank 1 made all_gather, rank 3 made broadcast",)


def test_sends_to_each_other_that_have_both_sides() -> None:
    job = MadeJob(2)
    job.transfer(0, 1)
    job.transfer(1, 0)
    for own in job.entries.values():
        for entry in own:
            entry.update(state="scheduled", retired=False)
    found = job.explained()
    assert (found.klass, found.undecided_ranks) == ("HANG:UNDECIDED", (0, 1))
    assert found.said == "send #1 between ranks 0, 1 has both sides, and is not over"
    assert all(wait.endswith(", which both sides made") for wait in found.waits)
    assert "the job made no progress, and the recorders do not show why" in as_text(found)


@pytest.mark.parametrize(
    ("between", "said"), [(True, ", or left out send on default_pg between two of them"), (False, "")]
)
def test_two_calls_in_a_row_may_lack_a_call_between_them(between: bool, said: str) -> None:
    """Rank 0 leaves out its send in step 2. The twin makes a second barrier where no call comes between two of them."""
    job = MadeJob(2)
    for step in range(4):
        if between:
            job.transfer(0, 1, sides="recv" if step == 2 else "both")
        else:
            job.call([0, 1], "all_reduce", line=12)
            job.call([0, 1], "broadcast", line=13)
        job.call([0], "barrier", line=14)
        if not between and step == 2:
            job.call([0], "barrier", line=14)
        if step != 2 or not between:
            job.call([1], "barrier", line=14)
        elif between:
            break
    found = job.explained()
    assert f"made barrier on default_pg once too often{said}; " in found.said
