"""Tests of hangs on two GPUs. dpsim explains each from its recording alone, and from its dumps alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from tests import ROOT
from tests.explained import explain_recordings
from tests.real.record.recorded import environment, started

pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu(2), pytest.mark.xdist_group("recorded on GPUs")]

PROGRAM = ROOT / "tests" / "real" / "nccl_hangs.py"
"""The program is outside of real/record, because dpsim skips lines in such a folder as the recorder's own."""

KINDS = ("none", "absent_call", "absent_agreement", "surplus", "dead", "stuck_host")


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Explanation, Explanation]]:
    """Returns, for each kind, the explanations of the recording and of the dumps. All jobs run at the same time."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    jobs = [
        started([str(PROGRAM), kind, str(rank), str(folder)], 1, told)
        for kind, folder in folders.items()
        for told in [{**environment(folder / "calls"), "TORCH_NCCL_ENABLE_MONITORING": "0"}]
        for rank in range(2)
    ]
    for [process] in jobs:
        try:
            process.communicate(timeout=150)
        finally:
            process.kill()
    return {kind: both(folder) for kind, folder in folders.items()}


def both(folder: Path) -> tuple[Explanation, Explanation]:
    return explain_recordings(folder / "calls"), judge_dumps(read_dumps(folder / "dumps"))


@pytest.mark.parametrize("source", ["recording", "dumps"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_hang_on_two_gpus(explained: dict[str, tuple[Explanation, Explanation]], kind: str, source: str) -> None:
    found = explained[kind][source == "dumps"]
    print(f"\n{kind}, by its {source}: {found}")
    if kind == "none":
        assert (found.outcome, found.culprit) == ("finished", None)
    elif (kind, source) == ("stuck_host", "dumps"):  # two ranks, and a dump has no line of a rank outside calls
        assert (found.outcome, found.culprit, found.undecided_ranks) == ("hang", None, (0, 1))
    else:
        assert found.outcome == "hang" or (kind == "dead" and found.outcome == "failed")
        assert found.culprit is not None
        assert found.culprit.ranks == (1,), found
