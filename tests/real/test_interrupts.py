"""Tests of Ctrl-C and SIGTERM on real processes: dpsim prints where every rank is, and then ends all processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_interrupts import ended
from tests.real.test_processes import eventually, is_gone

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")


@pytest.mark.slow  # tests/cli/test_interrupts.py has both on the simulation
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    ("sends", "code", "said"),
    [
        ("SIGINT", 130, "interrupted"),
        ("SIGTERM", 143, "terminated"),
    ],
)
def test_an_interrupted_run_names_the_op_of_each_rank_and_leaves_no_process(
    sends: str, code: int, said: str, tmp_path: Path
) -> None:
    """Both ranks call a barrier and then poll without end. Rank 1 sends the signal."""
    done = ended(tmp_path, "t_meets", sends, "run", "--backend", "gloo")
    assert (done.returncode, done.stdout) == (code, "")
    lines = done.stderr.splitlines()
    assert lines[0] == f"dpsim: {said}, without a result"
    assert {line.split(" in step 3: ")[0] for line in lines[1:]} <= {
        "dpsim: rank 0",
        "dpsim: rank 1",
        "dpsim: ranks 0, 1",
    }
    assert len(lines) > 1
    assert all("endless.py:" in line for line in lines[1:])
    workers = [int(line) for line in (tmp_path / "processes").read_text().split()]
    assert len({*workers}) == 2
    assert eventually(lambda: all(map(is_gone, workers)))
