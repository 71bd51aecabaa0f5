"""Tests of dumps under a wrong name: swapped, copied, or of another attempt. With them, a judgement would be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.diagnose.dumps.entries import DumpError
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from tests.diagnose.dumps.made import START, MadeJob

DP = {"dp0": [0, 1], "dp1": [2, 3]}


def hung(groups: dict[str, list[int]]) -> MadeJob:
    """A job in which rank 2 leaves out a call."""
    job = MadeJob(4, groups=groups)
    for _ in range(2):
        job.call([0, 1, 2, 3])
    job.call([0, 1, 3])
    return job


def file_of(folder: Path, rank: int) -> Path:
    return folder / f"nccl_rank_{rank}"


def test_the_dump_of_another_rank_is_refused(tmp_path: Path) -> None:
    """Ranks 0 and 2 have swapped names. In the twin no group shows it, and rank 0 would be blamed for rank 2."""
    for groups in (DP, {}):
        hung(groups).write(tmp_path)
        zero, two = (file_of(tmp_path, rank).read_bytes() for rank in (0, 2))
        file_of(tmp_path, 0).write_bytes(two)
        file_of(tmp_path, 2).write_bytes(zero)
        if groups:
            with pytest.raises(DumpError, match="nccl_rank_0: lists a group of ranks 2, 3, so it is no dump of rank 0"):
                read_dumps(tmp_path)
        else:
            found = judge_dumps(read_dumps(tmp_path)).culprit
            assert found is not None
            assert found.ranks == (0,)


def test_a_copy_under_another_rank_is_refused(tmp_path: Path) -> None:
    """A copy of rank 1 in the place of rank 2 hides what rank 2 left out. Dumps that a user wrote by hand may be equal:
    their times are small.
    """
    for by_hand in (False, True):
        job = hung({})
        for entries in job.entries.values():
            for at, entry in enumerate(entries):
                entry["time_created_ns"] = at if by_hand else entry["time_created_ns"]
        job.write(tmp_path)
        file_of(tmp_path, 2).write_bytes(file_of(tmp_path, 1).read_bytes())
        if by_hand:
            assert [*read_dumps(tmp_path).ranks] == [0, 1, 2, 3]
        else:
            with pytest.raises(DumpError, match=r"nccl_rank_2: has the calls of .*nccl_rank_1, so one of the two"):
                read_dumps(tmp_path)


def test_dumps_of_two_attempts_are_refused(tmp_path: Path) -> None:
    """A second dump of the same process has the same first calls, and is merged."""
    job = hung({})
    job.write(tmp_path)
    (tmp_path / "old_nccl_rank_0").write_bytes(file_of(tmp_path, 0).read_bytes())
    assert [*read_dumps(tmp_path).ranks] == [0, 1, 2, 3]
    later = MadeJob(4)
    later.now = 2 * START
    later.call([0, 1, 2, 3])
    later.write(tmp_path, without=[1, 2, 3])
    with pytest.raises(DumpError, match=r"old_nccl_rank_0: call 0 has another time than in .*nccl_rank_0\. One of"):
        read_dumps(tmp_path)
