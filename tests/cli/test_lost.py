"""Tests runs that lose a process or memory: exit code 3, no verdict, and still a report. Such a run meets no
expectation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpsim import runner
from dpsim.contract.world import Lost, Progress, World
from dpsim.sim.backend import SimBackend, SimRun
from dpsim.trace import read_trace
from tests import ROOT
from tests.cli.commands import HEALTHY, SKIP, Fake, dpsim_, write
from tests.cli.protocols import scenario

EXPECTATIONS = [
    "",
    "expect: {class: 'HANG:*'}\n",
    "expect: {class: 'CRASH:*'}\n",
    "expect: {class: 'STALE:REUSED_BLOCK'}\n",
]
MODULE = ("--module", "tests.cli.protocols")
WHY = "the process of rank 1 was ended by SIGKILL"


class Losing(SimBackend):
    """A backend that loses each run at its end."""

    def run_program(self, world: World, program: Any, prepared: Any, progress: Progress | None = None) -> SimRun:
        run = super().run_program(world, program, prepared, progress)
        run.ends[1], run.lost, run.observed = "died", WHY, f"lost: {WHY}"
        return run


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner._backends, "losing", Losing())


@pytest.mark.usefixtures("losing")
@pytest.mark.parametrize("expected", EXPECTATIONS)
@pytest.mark.parametrize("planted", ["", SKIP])
def test_no_expectation_is_met(planted: str, expected: str) -> None:
    file = write(Path("x.yaml"), HEALTHY + planted + expected)
    answer = dpsim_("run", file, "--backend", "losing", "--trace", "x.jsonl")
    assert (answer.code, answer.err) == (3, "")
    assert f"LOST  {WHY}: no verdict\n\nlast 5 ops of each rank:\n" in answer.out
    assert answer.out.splitlines()[-1].endswith(f"; NOT met: lost: {WHY}")
    assert ("skip" in answer.out) == bool(planted), "the report names what was injected"
    header = read_trace("x.jsonl").header
    assert (header.verdict, header.klass, header.observed) == ("lost", None, f"lost: {WHY}")
    found = dpsim_("run", file, "--backend", "losing", "--json").json
    assert (found["verdict"], found["lost"], found["met"], found["unmet"]) == ("lost", WHY, False, f"lost: {WHY}")
    assert (found["class"], found["findings"]) == (None, [])


@pytest.mark.usefixtures("losing")
def test_an_earlier_finding_is_reported() -> None:
    """The report contains findings about what the ranks did, but no hang, because the loss may have caused that."""
    differs = "faults: [{kind: alter, rank: 1, at: {site: dp.agree, ordinal: 2}, change: {count: 7}}]\n"
    answer = dpsim_("run", write(Path("x.yaml"), HEALTHY + differs), "--backend", "losing")
    assert answer.code == 3
    assert "\nfound before:\n  MISMATCH:COLLECTIVE:COUNT: " in answer.out
    assert "HANG" not in answer.out


def test_lost_before_the_run(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner._backends, "fake", Fake(Lost("gloo: rank 1 could not start: no memory")))
    answer = dpsim_("run", healthy, "--backend", "fake")
    assert (answer.code, answer.out, answer.err) == (3, "", "dpsim: gloo: rank 1 could not start: no memory\n")


@pytest.mark.parametrize("expected", EXPECTATIONS[:3])
@pytest.mark.parametrize("words", [("explore",), ("explore", "--jobs", "2"), ("run",)], ids=" ".join)
def test_a_simulated_run_without_memory(words: tuple[str, ...], expected: str) -> None:
    file = write(Path("x.yaml"), scenario("t_exhausts", more=expected))
    answer = dpsim_(*words, file, *MODULE)
    assert (answer.code, answer.err) == (3, "")
    assert "\nLOST  no memory (rank 0 in step 0)" in f"\n{answer.out}"
    assert "CRASH:MEMORYERROR" not in answer.out
    assert answer.out.splitlines()[-1].endswith("; NOT met: lost: no memory (rank 0 in step 0)")
    assert not Path(".dpsim").exists()


def test_a_lost_run_keeps_the_other_verdicts() -> None:
    files = [write(Path(f"{name}.yaml"), scenario(name)) for name in ("t_exhausts", "t_look", "t_lost")]
    answer = dpsim_("explore", *files, *MODULE)
    assert answer.code == 3
    assert answer.out.splitlines()[-1] == "3 scenarios: 1 proven, 1 violated, 1 lost"


def test_a_whole_scope() -> None:
    answer = dpsim_("explore", write(Path("x.yaml"), scenario("t_exhausts")), *MODULE, "--all-up-to", "ranks=2")
    assert answer.code == 3
    assert "and no failure before: no memory" in answer.out
    assert answer.out.splitlines()[-1].startswith("expected: held; NOT met: lost: no memory")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name")
def test_a_pipe_is_refused_unread() -> None:
    """dpsim refuses a pipe without opening it, because the open waits for a writer."""
    os.mkfifo("pipe.yaml")
    for words in (("run", "pipe.yaml"), ("replay", "pipe.yaml")):
        answer = dpsim_(*words)
        assert (answer.code, answer.out) == (2, ""), words
        assert "pipe.yaml" in answer.err
        assert answer.err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission(healthy: Path, broken: Path, planted: Path) -> None:
    os.chmod(".", 0o500)
    try:
        for file, code, warns in ((healthy, 0, False), (broken, 1, True), (planted, 0, True)):
            answer = dpsim_("explore", file)
            assert (answer.code, "warning: no trace" in answer.err) == (code, warns)
    finally:
        os.chmod(".", 0o700)


def test_the_same_where_a_file_is_in_the_way(healthy: Path, broken: Path, planted: Path) -> None:
    """A file at the place of the folder has the same effect as missing permission, which root ignores."""
    write(Path("file"), "")
    for file, code, warns in ((healthy, 0, False), (broken, 1, True), (planted, 0, True)):
        answer = dpsim_("explore", file, "--save", "file/folder")
        assert (answer.code, "warning: no trace" in answer.err) == (code, warns)


@pytest.mark.slow
def test_many_ranks_under_a_limit(tmp_path: Path) -> None:
    """Under a limit, memory is missing in the simulation, in the program or in the report."""
    write(tmp_path / "x.yaml", HEALTHY.replace("ranks: 3", "ranks: 4096"))
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2); "
        "del sys.argv[1]; from dpsim.cli.app import main; main()"
    )
    for megabytes in (8000, 2000, 1000):
        command = [sys.executable, "-c", limited, str(megabytes), "run", "x.yaml", "--module", "tests.agreeing"]
        told = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OPENBLAS_NUM_THREADS": "1",
        }  # a library would allocate a stack for each core
        done = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), done.stderr
        assert "CRASH" not in done.stdout
