"""Tests of what a folder of dumps lacks: the dump of one library, and dumps that dpsim does not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpsim.diagnose.dumps.entries import DumpError
from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from tests.diagnose.dumps.made import MadeJob

NO_NCCL = "rank 0 left a dump of gloo and none of nccl, so it counts as a rank without a dump"


def write_both(folder: Path, without: int) -> None:
    """Writes dumps of NCCL and of gloo. The one of NCCL is missing for the rank `without`. Rank 2 leaves out a call."""
    for library in ("nccl", "gloo"):
        job = MadeJob(4, library)
        if library == "gloo":
            job.groups = {"dp_cpu": [0, 1, 2, 3]}
        for _ in range(2):
            job.call([0, 1, 2, 3], group=next(iter(job.groups)))
        if library == "nccl":
            job.call([0, 1, 3])
        job.write(folder, without=[without] * (library == "nccl"))


def judged(folder: Path) -> Explanation:
    return judge_dumps(read_dumps(folder))


def test_a_rank_without_the_dump_of_nccl_is_not_blamed_for_its_calls(tmp_path: Path) -> None:
    """The recorder of gloo shows no call of NCCL. If rank 0 left a dump of NCCL without calls, it made none."""
    write_both(tmp_path, without=0)
    found = judged(tmp_path)
    assert found.culprit is None
    assert (found.undecided_ranks, found.confidence) == ((0, 2), "low")
    assert NO_NCCL in found.ground
    (tmp_path / "nccl_rank_0").write_text(json.dumps({"version": "2.10", "entries": []}))
    found = judged(tmp_path)
    assert NO_NCCL not in found.ground
    assert found.undecided_ranks != (0, 2)


def test_dumps_of_different_libraries_alone_are_refused(tmp_path: Path) -> None:
    """Each of two ranks left the dump of one library only, so no dump shows which of them made a call."""
    for rank, library in enumerate(("nccl", "gloo")):
        job = MadeJob(2, library)
        job.call([0, 1])
        job.write(tmp_path, without=[1 - rank])
    with pytest.raises(DumpError, match=r"rank 1 left a dump of gloo and none of nccl; .*expected for each rank"):
        read_dumps(tmp_path)


@pytest.mark.parametrize("name", ["nccl_rank_1.tmp", "nccl_rank_1.bak", "dump", "notes.txt"])
def test_the_report_names_a_dump_that_was_not_read(name: str, tmp_path: Path) -> None:
    job = MadeJob(4)
    job.call([0, 1, 2, 3])
    job.call([0, 2], "broadcast")
    job.call([3], "all_reduce")
    job.write(tmp_path)
    dump = (tmp_path / "nccl_rank_1").read_bytes()
    (tmp_path / "nccl_rank_1").unlink()
    (tmp_path / name).write_bytes(b"no dump" if name == "notes.txt" else dump)
    ground = judged(tmp_path).ground
    assert "rank 1 left no dump" in ground
    unread = f"dpsim did not read {name}: expected a plain dump whose name ends with its rank"
    assert (unread in ground) == (name != "notes.txt")
