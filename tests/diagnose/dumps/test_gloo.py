"""Tests of real hangs of four gloo processes. From the recorders' dumps, dpsim names the rank and the user's line.

Gloo's recorder lists no send and no receive. So for a wrong peer dpsim names no culprit, but the two stuck ranks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from tests import ROOT
from tests.properties import nightly_but

pytest.importorskip("torch")

PROGRAM = ROOT / "tests" / "diagnose" / "dumps" / "gloo_hangs.py"

LINES = {
    "absent_call": "def agree() -> None:",
    "surplus": "def agree() -> None:",
    "mismatched": "dist.broadcast(x, 0)",
    "dead": "def agree() -> None:",
    "group_order": "dist.barrier()\n        dist.all_reduce(x, group=other)",
    "early_return": "def agree() -> None:",
    "stuck_host": "def agree() -> None:",
}
"""For each kind of mistake, a text of the program at the culprit's line, or on the line before."""


def hang(kind: str, folder: Path) -> Explanation:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "2000"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [sys.executable, str(PROGRAM), kind, "all", str(folder)]
    ranks = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        ranks.wait(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(ranks.pid, signal.SIGKILL)
        ranks.wait()
    for beat in folder.glob("beat.*"):
        beat.unlink()
    return judge_dumps(read_dumps(folder))


def line_of(text: str) -> int:
    """Returns the line number at which a text of the program begins."""
    source = PROGRAM.read_text()
    return source[: source.index(text)].count("\n") + 1


@pytest.mark.parametrize("kind", nightly_but(LINES, lambda kind: kind in ("absent_call", "mismatched")))
def test_a_real_hang(kind: str, tmp_path: Path) -> None:
    found = hang(kind, tmp_path)
    assert (found.outcome, found.culprit and found.culprit.ranks) == ("hang", (2,)), found
    assert found.culprit is not None
    within = 1 if LINES[kind].startswith("def") else 0
    assert found.culprit.place.line.endswith(f"gloo_hangs.py:{line_of(LINES[kind]) + within}"), found.culprit


@pytest.mark.slow
def test_a_wrong_peer_is_not_decided(tmp_path: Path) -> None:
    found = hang("wrong_peer", tmp_path)
    assert (found.outcome, found.culprit) == ("hang", None)
    assert 2 in found.undecided_ranks
    assert any("does not show" in line for line in found.ground)


@pytest.mark.nightly
def test_a_healthy_job_accuses_no_rank(tmp_path: Path) -> None:
    """The twin: a healthy job has no culprit."""
    found = hang("none", tmp_path)
    assert (found.outcome, found.culprit) == ("finished", None)
