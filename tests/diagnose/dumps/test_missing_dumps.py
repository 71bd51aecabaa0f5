"""Tests of jobs in which a rank left no dump. Its peers wait for it, or for a rank that skipped the call."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.diagnose.dumps.text import as_text
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_stacks import PY_SPY


def skipping(ranks: int) -> MadeJob:
    """Returns a job in which rank 2 skips its second call."""
    job = MadeJob(ranks)
    job.call(range(ranks))
    job.call([rank for rank in range(ranks) if rank != 2], line=43)
    return job


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_a_dump_without_the_call_is_better_evidence_than_no_dump(ranks: int) -> None:
    found = skipping(ranks).explained(without=[1])
    assert (found.outcome, found.klass) == ("hang", "HANG:COLLECTIVE:MISSING_RANK")
    assert (found.culprit, found.undecided_ranks, found.undumped) == (None, (1, 2), (1,))
    assert found.said.startswith("rank 2 did not join all_reduce #2 on default_pg, in which rank ")
    assert found.ground[0] == "the last call of rank 2 is all_reduce #1 on default_pg at train.py:10, which finished"
    text = " ".join(as_text(found).split())
    assert "culprit not decided: rank 1 left no dump; one of ranks 1, 2 " in text
    assert "fetch the dump of rank 1 if it exists" in text
    assert text.endswith("py-spy dump --pid PID of rank 2")


def test_a_missing_rank_alone_is_still_blamed() -> None:
    """The twin: the rank that skips the call is the one without a dump."""
    found = skipping(4).explained(without=[2])
    assert found.culprit is not None
    assert (found.culprit.ranks, found.undecided_ranks) == ((2,), ())


def test_a_stack_of_one_of_them_shows_its_line_and_does_not_blame_it(tmp_path: Path) -> None:
    (tmp_path / "rank_2.pyspy").write_text(PY_SPY)
    found = judge_dumps(read_dumps(skipping(3).write(tmp_path, without=(1,))))
    assert (found.culprit, found.ground[0]) == (None, "rank 2 is at train.py:42")
