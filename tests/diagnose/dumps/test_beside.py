"""Tests of evidence beside the dumps: stacks, logs, and answers of NCCL's RAS service. Without it, some hangs are
undecided.
"""

from __future__ import annotations

from pathlib import Path

from dpsim.diagnose.dumps.beside import notes_of_ras, read_beside
from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.diagnose.dumps.text import as_text
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_stacks import PY_SPY

RAS = """Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210
  Rank 9 has launched up to operation 6640 -- GPU 1 managed by process 6247 on node 10.0.109.86

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5
"""

OF_TWO = """  Rank 0 has launched up to operation 2 -- GPU 0 managed by process 11 on node n
  Rank 1 has launched up to operation 1 -- GPU 1 managed by process 12 on node n
"""


def explained(folder: Path) -> Explanation:
    """Explains dumps of two ranks: rank 0 is in its second call, and rank 1 has made only one."""
    job = MadeJob(2)
    job.call([0, 1])
    job.call([0])
    job.write(folder)
    return judge_dumps(read_dumps(folder))


def test_without_other_evidence_two_ranks_have_no_majority(tmp_path: Path) -> None:
    assert explained(tmp_path).culprit is None


def test_a_stack_of_py_spy_names_the_rank_outside_any_call(tmp_path: Path) -> None:
    (tmp_path / "rank_1.pyspy").write_text(PY_SPY)
    found = explained(tmp_path)
    assert found.culprit is not None
    assert (found.culprit.ranks, found.culprit.place.line) == ((1,), "train.py:42")
    assert "rank 1 is at train.py:42" in found.ground


def test_a_stack_is_not_the_line_of_the_skipped_call(tmp_path: Path) -> None:
    """Rank 2 skips its second call, and waits elsewhere. Without its stack, the line is that of its peers."""
    job = MadeJob(4)
    job.call(range(4))
    job.call([0, 1, 3], line=43)
    job.write(tmp_path)
    for stack, says in (
        (False, "culprit   rank 2, all_reduce #2 on default_pg at train.py:43 < "),
        (True, "culprit   rank 2 did not make all_reduce #2 (peers: train.py:43); it is at train.py:42 < "),
    ):
        if stack:
            (tmp_path / "rank_2.pyspy").write_text(PY_SPY)
        assert as_text(judge_dumps(read_dumps(tmp_path))).split("\n")[1].startswith(says)


def test_a_stack_of_a_rank_that_made_another_call(tmp_path: Path) -> None:
    """The call of rank 2 differs and is over, and now rank 2 is elsewhere. So the line of the call is named, too."""
    job = MadeJob(4)
    job.call([0, 1, 3])
    job.call([2], "broadcast", line=9)
    job.over(job.entries[2][0])
    (tmp_path / "rank_2.pyspy").write_text(PY_SPY)
    lines = as_text(judge_dumps(read_dumps(job.write(tmp_path)))).split("\n")
    assert lines[1].startswith("culprit   rank 2, broadcast #1 on default_pg at train.py:9; it is at train.py:42 < ")
    assert "if the job still runs, py-spy dump --pid PID" in lines[-1]


def test_an_answer_of_ras_names_the_rank_that_is_behind(tmp_path: Path) -> None:
    (tmp_path / "ras.txt").write_text(OF_TWO)
    found = explained(tmp_path)
    assert found.culprit is not None
    assert found.culprit.ranks == (1,)
    assert found.said.endswith("rank 1 launched fewer operations")


def test_an_answer_of_ras() -> None:
    said, behind = notes_of_ras(RAS)
    assert behind == (0, 2, 9)
    assert said == (
        "RAS of NCCL: dead is Process 3487984 on node 172.16.64.213 managing GPU 5",
        "RAS of NCCL: ranks 0, 2, 9 launched up to operation 6640, others up to 6650",
    )


def test_an_answer_of_ras_without_trouble() -> None:
    assert notes_of_ras("Group Comms\n  0  8  4  1  4  32  RUNNING  OK\n") == ((), ())


def test_the_last_exception_of_a_log(tmp_path: Path) -> None:
    log = "Traceback (most recent call last):\nValueError: one\n\n[rank1]: RuntimeError: Connection closed by peer\n"
    (tmp_path / "worker_1.log").write_text(log)
    assert read_beside([tmp_path]).ends == {1: "RuntimeError: Connection closed by peer"}
    assert "the log of rank 1 ends with RuntimeError: Connection closed by peer" in explained(tmp_path).ground


def test_unreadable_stacks_and_logs_without_errors_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "rank_1.pyspy").write_bytes(b"\xff\xfe")
    (tmp_path / "rank_1.log").write_text("step 12 done\n")
    assert read_beside([tmp_path]) == ({}, {}, (), ())
