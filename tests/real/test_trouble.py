"""Tests that trouble of the machine causes no verdict: the run is lost, nothing is left behind, and the next run
finishes.

If a process of a rank exits or kills itself, dpsim still reports a finding. The slow tests start torch anew, or
resemble a quick one.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.ops import KIND
from dpsim.contract.world import At, Fault, Lost, Run, World
from real.backend import TorchBackend
from real.child import Child
from tests.real import hit_programs, programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL
from tests.trouble import Left

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.xdist_group("gloo"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc"),
]

pools = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
forked = pytest.mark.parametrize("backend", ["gloo"], indirect=True)


@pytest.fixture(autouse=True)
def _nothing_is_left(backend: TorchBackend, world: World) -> Iterator[None]:
    assert what_lacked(backend, world) == ""
    before = Left.now(folder_of(backend))
    yield
    assert what_lacked(backend, world) == ""
    left = Left.now(folder_of(backend))
    # Fewer connections than before are fine: those of processes that end late, as on a GPU, were counted before.
    assert left._replace(descriptors=max(left.descriptors, before.descriptors)) == before


def what_lacked(backend: TorchBackend, world: World) -> str:
    """Returns why a healthy run did not finish, or "" if it did."""
    run = backend.run(world, "real_rounds", {"rounds": 1})
    return "" if run.finished else f"{run.observed or run.lost}: {run.ends}"


def folder_of(backend: TorchBackend) -> Path:
    folder = backend.pool._folder
    assert folder is not None
    return folder.path


def lacking(backend: TorchBackend, world: World, what: str) -> Run:
    return backend.run(replace(world, stall_ns=1_000_000_000), "real_lacks", {"what": what})


@pools
@pytest.mark.parametrize(
    ("what", "said"),
    [
        pytest.param("disk", "rank 1: the journal could not be written: file too large", marks=pytest.mark.slow),
        pytest.param("disk later", "rank 1: the journal could not be written: file too large", marks=pytest.mark.slow),
        pytest.param("caught disk", "rank 1: the journal could not be written: file too large", marks=pytest.mark.slow),
        pytest.param("descriptors", "rank 1: too many open files: /dev/null", marks=pytest.mark.slow),
        pytest.param("memory", "rank 1: no memory", marks=pytest.mark.slow),
        pytest.param("memory in a kernel", "rank 1: no memory", marks=pytest.mark.slow),
        ("SIGKILL", "the process of rank 1 was ended by SIGKILL"),
        pytest.param("SIGTERM", "the process of rank 1 was ended by SIGTERM", marks=pytest.mark.slow),
        pytest.param("SIGHUP", "the process of rank 1 was ended by SIGHUP", marks=pytest.mark.slow),
        pytest.param("SIGXCPU", "the process of rank 1 was ended by SIGXCPU", marks=pytest.mark.slow),
        ("SIGUSR1", "the process of rank 1 was ended by SIGUSR1"),
        pytest.param("SIGQUIT", "the process of rank 1 was ended by SIGQUIT", marks=pytest.mark.slow),
        pytest.param("SIGALRM", "the process of rank 1 was ended by SIGALRM", marks=pytest.mark.slow),
        pytest.param("SIGRTMIN", "the process of rank 1 was ended by SIGRTMIN", marks=pytest.mark.slow),
        pytest.param("SIGSTOP", "the process of rank 1 was stopped and did not go on", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_lacks_memory_or_files_is_lost(backend: TorchBackend, world: World, what: str, said: str) -> None:
    run = lacking(backend, world, what)
    assert run.lost.startswith(said)
    assert run.observed == f"lost: {run.lost}"
    assert not run.finished
    assert judge(world, run) == []
    assert all(run.journals), "what was journaled before is read"


@forked
@pytest.mark.slow
def test_a_run_that_lacks_device_memory_is_lost(backend: TorchBackend, world: World) -> None:
    """Runs out of the device's memory. On a GPU this is an error of CUDA, and so a finding."""
    assert lacking(backend, world, "memory of the device").lost == "rank 1: cannot allocate memory"


@forked
@pytest.mark.slow
def test_an_earlier_finding_is_reported(backend: TorchBackend, world: World) -> None:
    run = lacking(backend, world, "agreement, then memory")
    assert run.lost == "rank 1: no memory"
    assert [finding.klass for finding in judge(world, run)] == ["DISAGREEMENT:BEFORE"]


@pools
@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("SIGABRT", "SIGABRT"),
        pytest.param("SIGSEGV", "SIGSEGV", marks=pytest.mark.slow),
        pytest.param("SIGBUS", "SIGBUS", marks=pytest.mark.slow),
        pytest.param("SIGILL", "SIGILL", marks=pytest.mark.slow),
        pytest.param("SIGFPE", "SIGFPE", marks=pytest.mark.slow),
        pytest.param("exit", "exit status 7", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_ends_itself_is_a_finding(backend: TorchBackend, world: World, what: str, how: str) -> None:
    run = lacking(backend, world, what)
    assert (run.lost, run.ends[1]) == ("", "died")
    assert f"rank 1 died ({how})" in run.observed
    assert [finding.klass for finding in judge(world, run)] != []


@pytest.mark.slow
@forked
def test_a_planted_death_is_no_trouble_of_the_machine(backend: TorchBackend, world: World) -> None:
    death = Fault("die", 1, At("meet", 0))
    run = backend.run(replace(world, faults=(death,)), "real_lacks", {"what": "disk"})
    assert (run.lost, run.ends) == ("", ["blocked", "died"])
    assert run.observed == "rank 1 died (SIGKILL)"


@forked
@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("stops in set-up", r"during set-up \(no Prepared\) the process of rank [01](, rank 1)? was stopped"),
        ("memory in set-up", "rank [01] could not start: no memory"),
    ],
)
def test_a_run_that_fails_in_set_up_is_lost(
    backend: TorchBackend, world: World, what: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real.crew.LOOKS", 1)
    with pytest.raises(Lost, match=f"gloo: {said}"):
        lacking(backend, world, what)
    assert backend.pool.processes == []


@forked
@pytest.mark.slow
def test_a_run_that_lacks_file_descriptors_names_them(backend: TorchBackend, world: World) -> None:
    """Checks that dpsim names missing descriptors before it starts a process. torch would abort, or its store would
    hang.
    """
    backend.pool.kill()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, hard))
    try:
        with pytest.raises(Lost, match=r"no start of 2 workers: 72 file descriptors are needed, and \d+ are free"):
            backend.run(world, "real_rounds", {"rounds": 1})
        assert backend.pool.processes == []
        assert (backend.pool.crew.server, backend.pool._store) == (None, None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@forked
@pytest.mark.slow
def test_a_store_that_cannot_be_started(backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise torch.distributed.DistStoreError("Failed to init uv loop")

    backend.pool.kill()
    backend.pool._store = None
    with monkeypatch.context() as patched:
        patched.setattr(torch.distributed, "TCPStore", fails)
        with pytest.raises(Lost, match="the store could not be started: Failed to init uv loop"):
            backend.run(world, "real_rounds", {"rounds": 1})


@forked
@pytest.mark.slow
def test_a_run_is_lost_if_the_fork_server_was_stopped(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("real.fork_server.LOOKS", 1)
    server = backend.pool.crew.server
    assert server is not None
    backend.pool.kill()
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(Lost, match=r"the process that forks the workers was lost \(it was stopped\)"):
        lacking(backend, world, "memory")
    assert backend.pool.crew.server is None


@forked
@pytest.mark.slow
def test_a_run_is_lost_if_the_fork_server_ends_during_it(backend: TorchBackend, world: World) -> None:
    server = backend.pool.crew.server
    assert server is not None
    told: list[int] = []

    def progress(step: int) -> None:
        if not told:
            told.append(step)
            os.kill(server.pid, signal.SIGKILL)

    args = {"how": "gets", "others": "gets"}
    run = backend.run(world, "real_waits", args, progress)
    assert "ended with what forks the workers" in run.lost
    assert told
    assert {record[KIND] for record in run.journals[0]} == {"take"}


@forked
@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("garbage", ""),
        ("fails", "rank 0: a store cannot go on: AssertionError: as planned"),
        ("killed", "the process of rank 0 was ended by SIGKILL"),
    ],
)
def test_a_hit_at_a_store(backend: TorchBackend, world: World, how: str, lost: str) -> None:
    """Disturbs a store. Garbage has no effect. If the store is gone, the run is lost, even if its rank has finished."""
    run = backend.run(world, "real_hit_store", {"how": how})
    assert run.lost == lost
    assert judge(world, run) == []
    if not lost:
        assert run.finished


@forked
def test_a_store_that_is_gone_is_trouble_before_the_system_has_seen_it(
    backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks a killed process whose store closes before the system shows its end."""
    seen, ended, wait = set[int](), Child.has_ended, Child.how_it_ended

    def waits(child: Child) -> str:
        seen.add(id(child))
        return wait(child)

    monkeypatch.setattr(Child, "how_it_ended", waits)
    monkeypatch.setattr(Child, "has_ended", lambda child: id(child) in seen and ended(child))
    run = backend.run(world, "real_hit_store", {"how": "killed"})
    monkeypatch.undo()
    assert run.lost == "the process of rank 0 was ended by SIGKILL"
