"""Tests of recorded jobs that failed: an exception about a lost connection is the weakest evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.diagnose.dumps.text import as_text
from tests.diagnose.recordings.made import MadeJob

LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:18146"


@pytest.fixture
def job(tmp_path: Path) -> MadeJob:
    return MadeJob(tmp_path, 3)


def loses(job: MadeJob, ranks: tuple[int, ...], error: str = LOST) -> None:
    for rank in ranks:
        job.call(rank, "broadcast", peer=0, over=False)
        job.end(rank, "raised", error)


def test_a_rank_that_ended_before_the_call_in_which_its_peer_lost_its_connection_is_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    job.end(1)
    loses(job, (0, 2))
    found = job.explained()
    assert found.culprit is not None
    assert (found.outcome, found.klass) == ("failed", "HANG:COLLECTIVE:MISSING_RANK")
    assert (found.culprit.ranks, found.culprit.op, found.culprit.seq, found.confidence) == (
        (1,),
        "broadcast",
        2,
        "medium",
    )
    said = "the program of rank 1 ended before broadcast #2 on default_pg, in which rank 0 lost a connection"
    assert found.said == said
    assert found.ground[:1] == (f"rank 0 raised {LOST}",)


def test_a_rank_that_made_a_call_more_than_all_that_ended_may_be_wrong(job: MadeJob) -> None:
    """The twin: the ranks that ended are no minority."""
    job.all("all_reduce")
    job.end(1)
    job.end(2)
    loses(job, (0,))
    found = job.explained()
    assert (found.culprit, found.undecided_ranks, found.confidence) == (None, (0, 1, 2), "low")
    assert "not decided: ranks 1, 2 ended too early, or rank 0 made a call too many; one of" in as_text(found)


def test_a_rank_that_ended_after_the_call_is_not_blamed(job: MadeJob) -> None:
    job.all("all_reduce")
    job.call(1, "broadcast", peer=0)
    job.end(1)
    loses(job, (0, 2))
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.confidence) == ((0,), "medium")


@pytest.mark.parametrize("own", [True, False])
def test_an_exception_with_its_own_reason_comes_before_a_lost_connection(job: MadeJob, own: bool) -> None:
    """Rank 0 loses its connection before rank 1 raises. Without a reason of rank 1, rank 0 is the first."""
    job.all("all_reduce")
    loses(job, (0,))
    loses(job, (1,), "ValueError: odd batch" if own else LOST)
    loses(job, (2,))
    found = job.explained()
    assert found.culprit is not None
    assert (found.culprit.ranks, found.confidence) == (((1,), "high") if own else ((0,), "medium"))


@pytest.mark.parametrize("elements", [4, 8])
def test_a_wrong_count_explains_the_death_of_processes_in_this_call(job: MadeJob, elements: int) -> None:
    """gloo ends a process that receives more than it expects. The twin has equal counts."""
    job.all("all_reduce")
    for rank in range(3):
        job.call(rank, "all_reduce", elements=elements if rank == 2 else 8, over=False)
    job.end(1, "raised", LOST)
    job.dies(0)
    job.dies(2)
    found = job.explained()
    assert found.culprit is not None
    if elements == 8:
        assert (found.klass, found.culprit.ranks) == ("DEATH:RANK", (0, 2))
    else:
        assert (found.outcome, found.klass, found.culprit.ranks) == ("failed", "MISMATCH:COLLECTIVE:COUNT", (2,))
        assert found.ground[0] == "ranks 0, 2 died in this call: a process may die of a wrong count or type"
