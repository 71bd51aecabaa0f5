"""Tests of the crew, the workers of a pool. Workers leave while others start, and a reserve replaces them. If CUDA
cannot work in a fork, a new Python process replaces the fork.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dpsim.contract.world import At, BackendUnavailable, Fault, Lost, World
from real import crew, fork_server, worker
from real.backend import TorchBackend
from real.child import Child
from real.crew import Crew
from real.messages import Ready, Refused
from real.spent import Spent
from tests.real import programs  # noqa: F401  # registers the test programs
from tests.real.test_processes import eventually, is_gone
from tests.real.worlds import AbortingGloo

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

DEATH = Fault("die", 1, At("host", 0))


@pytest.fixture(scope="module")
def kept() -> Iterator[AbortingGloo]:
    """Returns a backend that keeps a reserve of workers, as the one of NCCL does in these tests."""
    backend = AbortingGloo()
    backend.pool.crew.keeps_reserve = True
    yield backend
    backend.close()


@pytest.fixture
def warm(kept: AbortingGloo, world: World) -> AbortingGloo:
    """Returns the backend with workers and a reserve."""
    assert kept.run(world, "real_rounds", {"rounds": 1}).finished
    return kept


def reserve(backend: TorchBackend) -> list[int]:
    """Returns the process ids of the reserve, by rank."""
    return [backend.pool.crew._reserve[rank].process.pid for rank in sorted(backend.pool.crew._reserve)]


def dies(backend: AbortingGloo, world: World) -> None:
    assert backend.run(replace(world, faults=(DEATH,)), "real_rounds", {"rounds": 1}).ends == ["blocked", "died"]


@pytest.mark.slow
def test_the_reserve_steps_in_and_there_is_a_new_one(warm: AbortingGloo, world: World) -> None:
    before, waiting = warm.pool.processes, reserve(warm)
    assert len({*before, *waiting}) == 4
    dies(warm, world)
    assert warm.pool.processes == []
    assert warm.run(world, "real_rounds", {"rounds": 1}).finished
    assert warm.pool.processes == waiting
    assert not {*reserve(warm)} & {*before, *waiting}
    assert len(reserve(warm)) == 2


@pytest.mark.slow
def test_mail_is_for_those_that_work(warm: AbortingGloo, world: World) -> None:
    """Checks that messages reach the working processes. The reserve has the same ranks, and no socket before its first
    job.
    """
    for _ in range(2):
        args = {"how": "idles", "others": "ends"}
        assert warm.run(replace(world, stall_ns=1_000_000_000), "real_waits", args).finished
        dies(warm, world)


@pytest.mark.slow
def test_a_worker_that_ended_in_the_reserve_is_not_used(warm: AbortingGloo, world: World) -> None:
    first, second = reserve(warm)
    os.kill(second, signal.SIGKILL)
    assert eventually(lambda: is_gone(second))
    dies(warm, world)
    assert warm.run(world, "real_rounds", {"rounds": 1}).finished
    assert warm.pool.processes[0] == first
    assert warm.pool.processes[1] != second


class Unwaited:
    """A process that has ended, and of which its parent does not know that yet."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> None: ...

    def kill(self) -> None: ...


def test_a_worker_that_has_begun_to_end_is_not_taken_from_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the crew with a child process that is a zombie, so the kernel reports that it is ending."""
    monkeypatch.setattr(Child, "end", lambda child: None)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        assert eventually(lambda: is_gone(process.pid))
        child: Any = Child.__new__(Child)
        child.process = Unwaited(process.pid)
        ending = Crew("gloo", "cpu")
        ending._reserve[0] = child
        assert ending._called(0) is None
        child.process = Unwaited(os.getpid())
        ending._reserve[0] = child
        assert ending._called(0) is child


@pytest.mark.slow
def test_a_job_begins_when_those_that_left_are_gone(
    warm: AbortingGloo, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that a pool ends all old workers before it waits for one, and starts others in the meantime."""
    told: list[str] = []
    monkeypatch.setattr(warm.pool.crew, "keeps_reserve", False)

    def noted(name: str) -> Any:
        method = getattr(Child, name)

        def call(child: Child, *given: Any) -> Any:
            told.append(name)
            return method(child, *given)

        return call

    for name in ("__init__", "end", "wait", "send"):
        monkeypatch.setattr(Child, name, noted(name))
    warm.pool.crew._end([warm.pool.crew._reserve.pop(rank) for rank in (0, 1)])
    warm.pool.crew.wait()
    assert told == ["end", "end", "wait", "wait"]
    before = warm.pool.processes
    warm.pool._replace()
    assert warm.run(world, "real_rounds", {"rounds": 1}).finished
    assert told[4:-4] == ["end", "end", "__init__", "__init__", "wait", "wait"]
    assert told[-4:] == ["send"] * 4  # the messages Job and Go
    assert all(is_gone(process) for process in before)


@pytest.mark.slow
def test_a_pool_keeps_none_by_itself(backends: Callable[[str], TorchBackend], world: World) -> None:
    backend = backends("aborting")
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    assert reserve(backend) == []


@pytest.mark.slow
def test_a_pool_counts_its_starts_set_ups_runs_and_recoveries(warm: AbortingGloo, world: World) -> None:
    before = dict(warm.pool.spent.times)
    dies(warm, world)
    assert warm.run(world, "real_rounds", {"rounds": 1}).finished
    more = {phase: times - before[phase] for phase, times in warm.pool.spent.times.items()}
    assert more == {"start": 1, "set-up": 2, "run": 2, "recovery": 2}


@pytest.mark.slow
def test_no_process_of_it_is_left(warm: AbortingGloo) -> None:
    processes = [*warm.pool.processes, *reserve(warm)]
    warm.close()
    assert reserve(warm) == []
    assert all(is_gone(process) for process in processes), "close waits for them"


# ---- a fork in which CUDA does not work


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns a list of what a forked process would become; it does not become that here."""
    found: list[Any] = []
    monkeypatch.setattr(worker, "work", found.append)
    monkeypatch.setattr(os, "execv", lambda *command: found.append(command))
    return found


@pytest.mark.parametrize(("device", "bad"), [("cuda", True), ("cuda", False), ("cpu", True)])
def test_where_cuda_was_started_a_worker_is_a_new_python(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, device: str, bad: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: bad)
    link, lifeline = os.pipe()
    try:
        settings = {"device": device, "rank": 1, "socket": link, "lifeline": lifeline}
        fork_server.work(settings)
        anew = bad and device == "cuda"
        assert [os.get_inheritable(one) for one in (link, lifeline)] == [anew, anew]
        python = (sys.executable, [sys.executable, "-P", "-m", "real.worker", json.dumps(settings)])
        assert started[0] == (python if anew else settings)
    finally:
        os.close(link)
        os.close(lifeline)


# ---- where the time goes


def test_times_and_seconds_are_counted_also_where_something_raises() -> None:
    spent = Spent()
    for phase in ("start", "run", "run"):
        with pytest.raises(KeyError), spent.on(phase):
            raise KeyError
    assert dict(spent.times) == {"start": 1, "run": 2}
    assert str(spent) == "start 1 x 0.0 s, run 2 x 0.0 s"


class Killed:
    """A worker that SIGKILL ended. Its socket closes first. Its process is gone after a wait, or at the second poll."""

    def __init__(self, rank: int, said: Any = None) -> None:
        self.rank, self.name, self.process = rank, f"rank {rank}", self
        self._said, self._looks = said, 0
        self.pid = 0

    def poll(self) -> None: ...

    def receive(self) -> Any:
        return self._said

    def how_it_ended(self) -> str:
        self._looks += 2
        return "SIGKILL"

    def taken_away(self) -> str:
        self._looks += 1
        return "was ended by SIGKILL" if self._said is None and self._looks > 2 else ""


@pytest.mark.parametrize("first", [0, 1])
def test_a_worker_killed_in_set_up_is_lost(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gathers two workers during set-up, of which one was killed and the other one refuses because its peer is gone.
    The run is lost. Without a killed worker, a refusal is no loss.
    """
    refused = Refused(1, "machine", "Connection closed by peer")
    children: Any = [Killed(0), Killed(1, refused)]
    monkeypatch.setattr(crew, "speaking", lambda among, seconds: among[first : first + 1])
    with pytest.raises(Lost, match="the process of rank 0 was ended by SIGKILL during set-up"):
        Crew("gloo", "cpu").gather(children, Ready, 1)
    monkeypatch.setattr(crew, "speaking", lambda among, seconds: among)
    monkeypatch.setattr(crew, "SETTLE_SECONDS", 0.01)
    with pytest.raises(BackendUnavailable, match="rank 1 could not start"):
        Crew("gloo", "cpu").gather([children[1]], Ready, 1)
