"""Tests of what recordings show: each test has a mistake of one rank, or is a twin without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.diagnose.recordings import job as jobs
from dpsim.diagnose.recordings import living
from tests.diagnose.recordings.made import MadeJob
from tests.explained import explain_recordings


@pytest.fixture
def job(tmp_path: Path) -> MadeJob:
    return MadeJob(tmp_path, 4)


def test_a_job_that_ended_accuses_no_rank(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in range(4):
        job.end(rank)
    found = job.explained()
    assert (found.outcome, found.culprit) == ("finished", None)


def test_a_rank_with_an_absent_call_is_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.klass, found.culprit.ranks) == ("hang", "HANG:COLLECTIVE:MISSING_RANK", (2,))
    assert found.culprit.place.line == "train.py:42"


def test_the_culprit_has_the_line_of_the_absent_rank(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    job.stands(2, "data.py:7")
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.place.line) == ((2,), "data.py:7")


def test_of_two_ranks_the_one_outside_any_call_is_blamed(tmp_path: Path) -> None:
    job = MadeJob(tmp_path, 2)
    job.all("all_reduce")
    job.call(0, "all_reduce", over=False)
    job.stands(1, "data.py:7")
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.place.line, found.confidence) == ((1,), "data.py:7", "medium")


def test_of_two_ranks_none_without_a_line(tmp_path: Path) -> None:
    """The twin: without the line of the rank, the hang looks like one call too many, so dpsim names no culprit."""
    job = MadeJob(tmp_path, 2)
    job.all("all_reduce")
    job.call(0, "all_reduce", over=False)
    assert job.explained().culprit is None


def test_a_rank_whose_program_ended_is_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    job.end(2)
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks) == ("hang", (2,))
    assert "the program of rank 2 ended" in found.ground


@pytest.mark.parametrize(
    ("odd", "klass"),
    [
        ({"op": "broadcast", "peer": 3}, "MISMATCH:COLLECTIVE:ROOT"),
        ({"op": "broadcast", "peer": 0, "dtype": "int64"}, "MISMATCH:COLLECTIVE:DTYPE"),
        ({"op": "broadcast", "peer": 0, "reduction": "max"}, "MISMATCH:COLLECTIVE:REDUCE"),
        ({"op": "broadcast", "peer": 0, "elements": 15}, "MISMATCH:COLLECTIVE:COUNT"),
        ({"op": "all_reduce"}, "MISMATCH:COLLECTIVE:OP"),
    ],
)
def test_a_rank_whose_call_differs_is_blamed(job: MadeJob, odd: dict[str, object], klass: str) -> None:
    for rank in range(4):
        job.call(rank, **(odd if rank == 1 else {"op": "broadcast", "peer": 0}), over=False)  # type: ignore[arg-type]
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == (klass, (1,))


def test_a_rank_that_died_is_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    job.dies(2)
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks, found.said) == (
        "HANG:COLLECTIVE:DEAD_RANK",
        (2,),
        "rank 2 died, and others wait",
    )


def test_a_rank_that_holds_pythons_lock_lives(job: MadeJob) -> None:
    """Judges a rank that shows no signs of life, though its fault handler wrote lines. So it lives."""
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    job.dies(2)
    job.stands(2, "kernel.py:9")
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.place.line) == ("HANG:COLLECTIVE:MISSING_RANK", "kernel.py:9")


def test_the_rank_whose_exception_ended_all_is_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    job.end(2, "raised", "ValueError: odd batch")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce")
        job.end(rank, "raised", "RuntimeError: Connection closed by peer")
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks, found.said) == ("failed", (2,), "rank 2 raised ValueError: odd batch")


@pytest.mark.parametrize(
    ("error", "culprit"), [("RuntimeError: Connection closed by peer", 2), ("ValueError: odd batch", 0)]
)
def test_a_silent_death_is_blamed_unless_peers_raised_for_another_reason(
    job: MadeJob, error: str, culprit: int
) -> None:
    """Judges a rank that ends without a message. Peers notice its death at once. If they raise for another reason, they
    are the cause, and the rank was ended after them.
    """
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce")
        job.end(rank, "raised", error)
    job.dies(2)
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks) == ("failed", (culprit,)), found


def test_a_call_that_raised_is_not_over(job: MadeJob) -> None:
    """Judges a call that raised an exception, after which the program continued, as an engine may. The call is not
    over.
    """
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.raises(rank, "all_reduce")
    job.dies(2)
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("HANG:COLLECTIVE:DEAD_RANK", (2,))


def test_a_job_that_moves_accuses_no_rank(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    for file in job.files:
        job.quiet(file, 1_000_000_000)
    found = job.explained()
    assert (found.outcome, found.culprit) == ("moving", None)


def test_a_differing_decision_is_reported_before_its_consequences(job: MadeJob) -> None:
    for rank in range(4):
        job.step(rank, 7)
        job.decide(rank, "tokens", 5 if rank == 2 else 8)
    for rank in range(4):
        job.call(rank, "all_reduce", elements=5 if rank == 2 else 8, over=False)
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("DISAGREEMENT:TOKENS", (2,))
    assert found.said == "tokens in step 7: ranks 0, 1, 3 decided 8; rank 2 decided 5"


def test_a_job_that_ended_in_spite_of_a_decision(job: MadeJob) -> None:
    job.step(0, 7)
    for rank in range(4):
        job.decide(rank, "tokens", rank == 3)
    job.all("all_reduce")
    for rank in range(4):
        job.end(rank)
    found = job.explained()
    assert (found.outcome, found.culprit) == ("finished", None)
    assert found.ground[0].startswith("tokens: ranks 1, 2 decided False; rank 3 decided True")


def test_equal_decisions_are_no_finding(job: MadeJob) -> None:
    for rank in range(4):
        job.step(rank, 7)
        job.decide(rank, "tokens", 8)
    for rank in range(4):
        job.call(rank, "all_reduce", elements=5 if rank == 2 else 8, over=False)
    assert job.explained().klass == "MISMATCH:COLLECTIVE:COUNT"


def test_a_rank_with_a_wrong_peer_is_blamed(job: MadeJob) -> None:
    for _ in range(3):
        for rank in range(4):
            job.call(rank, "send", peer=(rank + 1) % 4)
            job.call(rank, "recv", peer=(rank - 1) % 4)
    for rank in range(4):
        job.call(rank, "send", peer=(rank + 1) % 4, over=False)
    job.call(2, "recv", peer=3, over=False)
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("HANG:P2P:UNMATCHED_RECV", (2,))


def test_a_rank_that_lacks_a_call_in_cpp_is_blamed(job: MadeJob) -> None:
    """Judges calls that torch makes in C++. Only the library counts them, and rank 2 lacks one."""
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.count(rank, 2)
        job.stands(rank, "train.py:50")
    job.count(2, 1)
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks, found.culprit.op) == ("hang", (2,), jobs.IN_CPP)


@pytest.mark.parametrize("beyond", [True, False])
def test_of_two_ranks_the_one_that_left_its_call_in_cpp_is_blamed(tmp_path: Path, beyond: bool) -> None:
    """Judges two ranks that have each made two calls in C++. If one has made a third, it has left the second. If not,
    it may still be in it.
    """
    job = MadeJob(tmp_path, 2)
    job.count(0, 3 if beyond else 2)
    job.count(1, 2)
    job.stands(0, "train.py:50")
    job.stands(1, "data.py:7")
    found = job.explained()
    assert (found.culprit is not None) is beyond
    if found.culprit is not None:
        assert (found.culprit.ranks, found.culprit.place.line) == ((1,), "data.py:7")


def test_nccl_calls_return_at_once(tmp_path: Path) -> None:
    """Judges calls of NCCL, which return at once. They are over once all members have made them."""
    job = MadeJob(tmp_path, 4, "nccl")
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce")
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.culprit.ranks) == ("hang", (2,))


def test_a_ring_that_lost_its_first_records(tmp_path: Path) -> None:
    job = MadeJob(tmp_path, 4, slots=16)
    for _ in range(40):
        job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    found = job.explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks, found.culprit.seq) == ("HANG:COLLECTIVE:MISSING_RANK", (2,), 41)


def test_the_ground_counts_calls_that_the_recorder_missed(job: MadeJob) -> None:
    job.all("all_reduce", over=False)
    job.files[1].missed(3)
    assert "the recorder could not describe 3 calls of rank 1" in job.explained().ground


def test_a_later_call_of_main_does_not_end_a_call_of_a_background_thread(job: MadeJob) -> None:
    """Judges a call of a background thread. A later call of the main thread does not end it."""
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False, thread="background")
        job.call(rank, "send", peer=(rank + 1) % 4)
    assert job.explained().outcome == "hang"


def test_a_later_call_of_the_same_thread_ends_the_earlier_one(job: MadeJob) -> None:
    """The twin: a later call of the same thread shows that the earlier one is over."""
    job.all("all_reduce", over=False)
    for rank in range(4):
        job.call(rank, "all_reduce")
        job.end(rank)
    assert job.explained().outcome == "finished"


def test_calls_that_are_over_do_not_end_a_program(job: MadeJob) -> None:
    """Judges a job whose calls are all over, and whose ranks still run outside of calls."""
    job.all("all_reduce")
    found = job.explained()
    assert (found.outcome, found.culprit) == ("undecided", None)
    assert found.said == "all calls are over, and the job still runs: ranks 0 to 3"


def test_a_rank_that_made_groups_in_another_order_is_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    for rank in range(4):
        job.decide(rank, "group_1", [1, 2] if rank == 2 else [0, 1])
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.klass, found.culprit.ranks) == ("hang", "DISAGREEMENT:GROUP_1", (2,))


def test_calls_of_cpp_move_a_job(job: MadeJob) -> None:
    """Judges calls in C++, which have no record. The library's counts differ because the ranks reported them at
    different times, so the job was running.
    """
    for rank, file in enumerate(job.files):
        job.count(rank, 7 + rank)
        job.quiet(file, 1_000_000_000)
        file.moved()
    found = job.explained()
    assert (found.outcome, found.culprit) == ("moving", None)


@pytest.mark.parametrize("exists", [True, False])
def test_a_silent_process_that_exists_has_not_died(job: MadeJob, monkeypatch: pytest.MonkeyPatch, exists: bool) -> None:
    """Judges a silent process that exists. It may hold Python's lock, so it has not died. A process whose number
    belongs to another process by now has died.
    """
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    job.dies(2)
    for rank, file in enumerate(job.files):
        began = 1 if rank != 2 or exists else 2
        file.memory[:] = bytes(file.memory).replace(b"BEGAN", b"%05d" % began)
    monkeypatch.setattr(living, "machine", lambda: "here")
    monkeypatch.setattr(living, "begun_at", lambda pid: 1)
    found = job.explained()
    assert (found.klass == "HANG:COLLECTIVE:DEAD_RANK") is not exists


@pytest.mark.parametrize("silent", [True, False])
def test_a_process_that_ended_earlier_than_the_rest(
    job: MadeJob, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """Judges a job whose processes no longer exist. A process that became silent before the others died while they
    waited for it.
    """
    job.all("all_reduce")
    for rank in (0, 1, 3):
        job.call(rank, "all_reduce", over=False)
    if silent:
        job.dies(2)
    for file in job.files:
        file.memory[:] = bytes(file.memory).replace(b"BEGAN", b"00001")
    monkeypatch.setattr(living, "machine", lambda: "here")
    monkeypatch.setattr(living, "begun_at", lambda pid: 0)
    assert (job.explained().klass == "HANG:COLLECTIVE:DEAD_RANK") is silent


@pytest.mark.parametrize("odd", [True, False])
def test_processes_that_ended_while_the_job_moved(job: MadeJob, monkeypatch: pytest.MonkeyPatch, odd: bool) -> None:
    """Judges processes that all ended while the job was running. If matched calls differ, they are the cause. Otherwise
    no rank is, because a late rank may be healthy.
    """
    for rank in range(4):
        if rank != 2 or odd:
            job.call(rank, "all_reduce", elements=5 if rank == 2 else 8, over=False)
    for file in job.files:
        job.quiet(file, 1_000_000)
    monkeypatch.setattr(jobs, "all_gone", lambda recordings: True)
    found = job.explained()
    assert (found.outcome, found.culprit and found.culprit.ranks) == ("failed", (2,) if odd else None)


@pytest.mark.parametrize("named", [True, False])
def test_explain_takes_only_the_newest_job_of_a_folder(tmp_path: Path, named: bool) -> None:
    """Explains a folder with the files of two jobs, of which the first had more ranks and hung. Without the jobs'
    names, the last rank of the first job would count as a rank of the second.
    """
    first = MadeJob(tmp_path / "first", 3, name="29500" if named else "")
    first.all("all_reduce")
    first.call(1, "all_reduce", over=False)
    second = MadeJob(tmp_path / "second", 2, name="29501" if named else "")
    second.all("barrier")
    for rank in range(2):
        second.end(rank)
    folder = second.gathered()
    for number, file in enumerate(first.files):
        file.path.rename(folder / f"rank_{number}.1.recording")
    found = explain_recordings(folder)
    assert (found.outcome == "finished") is named
    if named:
        assert found.ground[-1] == "the folder has recordings of an earlier job, too: 3 processes left out"
