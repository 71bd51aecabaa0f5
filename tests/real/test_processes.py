"""Tests of workers and of the fork server, which forks them: they end when their parent ends, for any reason. Also
tests of NCCL's recovery by abort, with threads in place of GPUs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dpsim.contract.ops import KIND
from dpsim.contract.world import At, Fault, World
from real import folder, fork_server
from real.backend import TorchBackend
from real.folder import PoolFolder
from tests import ROOT
from tests.real import programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

# A parent that prints the process ids of its workers and of the fork server. Then it prints that rank 0 waits for rank
# 1, which holds Python's lock.
PARENT = """
import pathlib
import signal

from real import folder
from real.backend import GlooBackend, TorchBackend
from tests.real import programs, worlds

folder.MEMORY = pathlib.Path("none")  # so that TMPDIR counts

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
backend = GlooBackend()
backend.run(worlds.make_world(), "real_rounds", {"rounds": 1})
print(*backend.pool.processes, backend.pool.crew.server.pid, flush=True)
world = worlds.make_world(stall_ns=100_000_000_000)
backend.run(world, "real_misbehaves", {"how": "holds_the_lock", "wait": True}, lambda _: print("stuck", flush=True))
"""


def is_gone(process: int) -> bool:
    """Returns whether a process has ended with all its threads. A zombie has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX" and len(os.listdir(f"/proc/{process}/task")) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Polls the condition. Only a failing test waits for all of `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill -9", "kill -9 of both", "Ctrl-C"])
def test_no_worker_outlives_its_parent(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    workers: list[int] = []
    try:
        assert parent.stdout is not None
        workers = [int(process) for process in parent.stdout.readline().split()]
        assert len(workers) == 3
        assert parent.stdout.readline() == "stuck\n"
        assert not any(is_gone(process) for process in workers)
        if how == "Ctrl-C":
            os.killpg(parent.pid, signal.SIGINT)  # a terminal sends it to all of them
        else:
            if how == "kill -9 of both":
                os.kill(workers[-1], signal.SIGKILL)  # the fork server, which would remove the folder
            parent.kill()
        assert parent.wait(60) == (-signal.SIGINT if how == "Ctrl-C" else -signal.SIGKILL)
        assert eventually(lambda: all(is_gone(process) for process in workers))
        left = list(tmp_path.glob("dpsim-*"))
        assert len(left) == (1 if how == "kill -9 of both" else 0)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(folder, "MEMORY", tmp_path / "none")
        PoolFolder().remove()  # as the next pool does
        assert not list(tmp_path.glob("dpsim-*"))
    finally:
        parent.kill()
        parent.wait()
        assert parent.stdout is not None
        parent.stdout.close()
        for process in workers:
            if not is_gone(process):
                os.kill(process, signal.SIGKILL)


# ---- recovery by abort

aborting = pytest.mark.parametrize("backend", ["aborting", NCCL], indirect=True)


@pytest.mark.slow
@aborting
@pytest.mark.parametrize("site", ["host", "device"])
def test_a_stuck_worker_gives_up_and_is_used_again(backend: TorchBackend, world: World, site: str) -> None:
    assert backend.run(world, "real_rounds", {"rounds": 2}).finished
    before = backend.pool.processes
    skip = Fault("skip", 1, At(site, 1))
    run = backend.run(replace(world, faults=(skip,), stall_ns=1_000_000_000), "real_rounds", {"rounds": 2})
    assert "blocked" in run.ends
    assert run.observed == "no rank moved for 1 s"
    assert "raised" not in {record[KIND] for journal in run.journals for record in journal}
    assert backend.run(world, "real_rounds", {"rounds": 2}).finished
    assert backend.pool.processes == before


@aborting
def test_old_communicators_are_let_go_when_there_are_many(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real.pool.MOST_COMMUNICATORS", 4)
    for name in ("first", "second", "third"):
        specs = [spec._replace(name=f"{name}.{spec.name}") for spec in world.communicators]
        assert backend.run(replace(world, communicators=tuple(specs)), "real_rounds", {"rounds": 1}).finished


@aborting
def test_workers_are_replaced_when_they_are_worn(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real.pool.MOST_GENERATIONS", 0)
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    harmless = Fault("skip", 1, At("nowhere", 0))
    assert backend.run(replace(world, faults=(harmless,)), "real_rounds", {"rounds": 1}).finished
    assert backend.pool.processes == []


@aborting
@pytest.mark.slow
def test_a_worker_that_does_not_give_up_is_replaced(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real.pool.RECOVERY_SECONDS", 0.5)
    args = {"how": "holds_the_lock", "wait": True}
    run = backend.run(replace(world, stall_ns=1_000_000_000), "real_misbehaves", args)
    assert run.ends == ["blocked", "blocked"]
    assert backend.pool.processes == []
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished


@aborting
@pytest.mark.slow
def test_a_worker_that_was_killed_while_it_was_idle_is_replaced(backend: TorchBackend, world: World) -> None:
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    victim = backend.pool.processes[1]
    os.kill(victim, signal.SIGKILL)
    assert eventually(lambda: is_gone(victim))
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished


# ---- the fork server

forked = pytest.mark.parametrize("backend", ["gloo"], indirect=True)


@pytest.mark.slow
@forked
def test_the_fork_server_outlives_the_workers_of_a_hang(backend: TorchBackend, world: World) -> None:
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    server, before = backend.pool.crew.server, backend.pool.processes
    death = Fault("die", 1, At("host", 0))
    assert backend.run(replace(world, faults=(death,)), "real_rounds", {"rounds": 1}).ends == ["blocked", "died"]
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    assert not {*backend.pool.processes} & {*before}
    assert backend.pool.crew.server is server


@pytest.mark.slow
@forked
def test_the_workers_end_after_a_kill_of_the_fork_server(backend: TorchBackend, world: World) -> None:
    """Kills the fork server. Then no process can tell how the workers ended, so they end too, and the next run starts
    anew.
    """
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    server, before = backend.pool.crew.server, backend.pool.processes
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: is_gone(server.pid))
    assert eventually(lambda: all(is_gone(process) for process in before)), "the workers end with the fork server"
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    assert backend.pool.crew.server is not server


@pytest.mark.slow
@forked
def test_a_worker_has_environment_and_output_of_its_start(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Checks that a worker has the environment and the output at its own start, and not those at the fork server's
    start.
    """
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    backend.pool.kill()
    monkeypatch.setenv("SAID", "of the moment")
    assert backend.run(world, "real_prints", {"variable": "SAID"}).finished
    assert capfd.readouterr().err == "of the moment\n" * 2
    backend.pool.kill()  # its output ends with this test


@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
@pytest.mark.slow
def test_close_ends_the_workers_and_the_backend_may_be_used_again(backend: TorchBackend, world: World) -> None:
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    workers = backend.pool.processes
    backend.close()
    backend.close()  # nothing is left to close
    assert eventually(lambda: all(is_gone(process) for process in workers))
    assert backend.pool.processes == []
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished


def test_ctrl_c_is_ignored_before_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that the fork server ignores Ctrl-C, which the terminal sends to all processes. Once its import of torch
    ended with a traceback.
    """

    class Imported(Exception):
        pass

    def imports(name: str) -> None:
        raise Imported

    monkeypatch.setattr("sys.argv", ["fork_server", "3", "cpu"])
    monkeypatch.setattr("importlib.import_module", imports)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Imported):
            fork_server.main()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_parent_that_was_killed_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Checks that the fork server removes the folder of a parent that was killed, once the parent's socket has closed.
    It keeps a folder that another pool holds.
    """

    def serve(link: object) -> None:
        raise EOFError

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(folder, "MEMORY", tmp_path / "none")
    monkeypatch.setattr(fork_server, "serve", serve)
    monkeypatch.setattr(fork_server, "Connection", lambda number: None)
    monkeypatch.setattr(fork_server, "_has_children", lambda: False)
    monkeypatch.setattr(os, "getppid", iter([7, 8]).__next__)
    monkeypatch.setattr(sys, "argv", ["fork_server", "3", "cpu"])
    held = PoolFolder()
    (tmp_path / "dpsim-pool-of-one-killed").mkdir()
    before = signal.getsignal(signal.SIGINT)
    try:
        fork_server.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == [held.path]
    held.remove()
