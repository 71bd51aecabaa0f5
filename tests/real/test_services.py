"""Tests of services on real processes: their journals equal the simulation's, they end and die like ranks, and have no
device.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from dpsim import runner
from dpsim.contract.world import At, Backend, BackendUnavailable, CommunicatorSpec, Fault, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.testing.conformance import services  # noqa: F401  # registers a program
from real import crew as crews
from real import pool
from real.backend import TorchBackend
from real.crew import Crew
from real.messages import Ready, worker_of
from real.watch import JobWatch
from tests.cli.commands import Fake
from tests.protocols import served
from tests.real import programs, service_programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL, make_world
from tests.trouble import later

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
on_all = pytest.mark.parametrize(
    "backend", ["gloo", pytest.param("aborting", marks=pytest.mark.slow), NCCL], indirect=True
)

DESK, CLERK = 2, 3


@pytest.fixture
def world() -> World:
    return make_world(devices=["dp"], services=("desk", "clerk"))


def desk(backend: Backend, world: World, rounds: int = 2) -> Run:
    return backend.run(world, "real_desk", {"rounds": rounds, "ranks": 2})


@on_each
def test_services_have_the_journals_of_the_simulation(backend: TorchBackend, world: World) -> None:
    real, simulated = desk(backend, world), desk(SimBackend(), world)
    assert real.ends == simulated.ends == ["finished"] * 4
    assert real.journals == simulated.journals
    assert real.observed == ""


@on_each
def test_processes_are_found_warm_whatever_the_number_of_services(backend: TorchBackend, world: World) -> None:
    """Checks that the pool keeps its processes for any number of services. A process of a rank keeps its device and
    number, which differ from the number of a service in a world.
    """
    desk(backend, world)
    workers = backend.pool.processes
    assert len(backend.pool.crew.workers) >= 2
    assert len(backend.pool.crew.services) == 2
    assert backend.run(replace(world, services=()), "real_rounds", {"rounds": 1}).finished
    assert desk(backend, world).finished
    assert backend.pool.processes == workers
    assert [child.rank for child in backend.pool.crew.services] == [-1, -2]


@pytest.mark.slow
@on_each
def test_services_are_members_of_communicators_of_hosts(backend: TorchBackend, world: World) -> None:
    """Runs worlds in which the actors 2 and 3 are ranks or services. The pool keeps the processes between these
    jobs.
    """
    for size, names in ((2, ("desk", "clerk")), (4, ()), (3, ("desk",)), (2, ("desk", "clerk"))):
        if backend.unavailable(size):
            continue
        for members in ((2, 3), (1, 2), (0, 2, 3)):
            told = World(size, (CommunicatorSpec("met", "met", "host", members),), services=names)
            args = {"services": len(names), "members": members}
            real, simulated = (one.run(told, "real_met", args) for one in (backend, SimBackend()))
            assert real.ends == simulated.ends == ["finished"] * 4
            assert real.journals == simulated.journals


def test_workers_of_services_have_negative_numbers() -> None:
    assert [worker_of(actor, 3) for actor in range(5)] == [0, 1, 2, -1, -2]
    assert [worker_of(worker, 3) for worker in (0, 1, 2, -1, -2)] == [0, 1, 2, 3, 4]


@on_all
@pytest.mark.slow
def test_a_service_that_dies_is_one_that_died(backend: TorchBackend, world: World) -> None:
    """Plants a death in a service, which dies like a rank."""
    before = desk(backend, world).journals[DESK]
    run = desk(backend, replace(world, faults=(Fault("die", DESK, At("pass", 1)),)))
    assert run.ends == ["blocked", "blocked", "died", "blocked"]
    assert run.observed == "no rank moved for 1 s after desk died (SIGKILL)"
    assert run.lost == ""
    assert run.journals[DESK][:-1] == before[: len(run.journals[DESK]) - 1]
    assert desk(backend, world).finished


@on_all
def test_a_service_that_raises_has_the_journal_of_the_simulation(backend: TorchBackend, world: World) -> None:
    world = replace(world, services=("desk",))
    args = {"how": "ends", "others": "ends", "service": "streams"}
    run, simulated = backend.run(world, "real_stores", args), SimBackend().run(world, "real_stores", args)
    assert run.ends == simulated.ends == ["finished", "finished", "raised"]
    assert run.observed == "desk raised"
    assert run.journals == simulated.journals
    assert "the service desk has no device" in run.journals[DESK][-1][-1]


@pytest.mark.slow
@on_all
def test_a_service_that_waits_endlessly_is_a_hang(backend: TorchBackend, world: World) -> None:
    """Runs a service that waits in a get when all ranks have ended. The run hangs, unless the get is idle."""
    world = replace(world, services=("desk",), stall_ns=1_000_000_000)
    for how, end in (("gets_for_ever", "blocked"), ("idles", "finished")):
        run = backend.run(world, "real_stores", {"how": "ends", "others": "ends", "service": how})
        assert run.ends == ["finished", "finished", end]
        assert run.observed == ("no rank moved for 1 s" if end == "blocked" else "")
    assert desk(backend, replace(world, services=("desk", "clerk"), stall_ns=60_000_000_000)).finished


@pytest.mark.slow
@on_all
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_service_that_is_taken_away_is_lost(
    backend: TorchBackend, world: World, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills or stops a service while rank 1 and the services wait in gets. The run is lost."""
    world = replace(world, services=("desk",), stall_ns=1_500_000_000)

    class Striking(JobWatch):
        def observe(self) -> None:
            victim = self.children[DESK].process.pid
            with later(0.1, lambda: os.kill(victim, number)):
                super().observe()

    monkeypatch.setattr(pool, "JobWatch", Striking)
    run = backend.run(world, "real_stores", {"how": "opens_and_waits", "others": "ends", "service": "opens_and_waits"})
    how = "was ended by SIGKILL" if number == signal.SIGKILL else "was stopped and did not go on"
    assert run.lost == f"the process of desk {how}"
    monkeypatch.undo()
    assert desk(backend, replace(world, services=("desk", "clerk"), stall_ns=60_000_000_000)).finished


# ---- without processes


class Started:
    """A worker that has started with these settings."""

    settings: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, rank: int, settings: dict[str, Any], *_: object) -> None:
        self.rank = rank
        self.versions: dict[str, str] = {}
        self.settings.append({"rank": rank, "device": settings["device"]})

    def receive(self) -> Ready:
        return Ready(0, {"torch": "any"})


def test_services_need_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(Started, "settings", [])
    monkeypatch.setattr(crews, "Child", Started)
    monkeypatch.setattr(crews, "speaking", lambda children, seconds: children)
    crew = Crew("nccl", "cuda")
    monkeypatch.setattr(crew, "forking", lambda environment: None)
    for size, more in ((2, 2), (1, 1), (2, 3)):
        crew.grow(size, more, {"device": "cuda", "folder": str(tmp_path)}, {})
    assert [(one["rank"], one["device"]) for one in Started.settings] == [
        (0, "cuda"),
        (1, "cuda"),
        (-1, "none"),
        (-2, "none"),
        (-3, "none"),
    ]
    assert (crew.lacks(2, 3), crew.lacks(3, 1), crew.lacks(3, 5)) == (0, 1, 3)


def test_a_backend_is_asked_for_as_many_devices_as_there_are_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Asked(Fake):
        def unavailable(self, size: int) -> str | None:
            asked.append(size)
            return "none of them"

    backend = Asked(RuntimeError())
    monkeypatch.setattr(runner, "find_backend", lambda name: backend)
    monkeypatch.setattr(runner, "only_simulated", lambda scenario, name, at_gates: None)
    with pytest.raises(BackendUnavailable, match="none of them"):
        runner.run_scenario(served(), "any")
    assert asked == [2]
