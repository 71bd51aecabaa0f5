"""Tests of captured graphs on real backends: the results and journals of the simulation, a replay that hangs, and a
capture that fails.

gloo repeats the calls of a graph. CUDA captures those of NCCL.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.ops import KIND, SITE, as_record
from dpsim.contract.world import At, Fault, Run, World
from dpsim.sim.backend import SimBackend
from real.backend import TorchBackend
from tests.properties import slow_but
from tests.real import graph_programs, programs  # noqa: F401  # registers the test programs
from tests.real.test_conformance import decisions, on_both
from tests.real.worlds import NCCL, make_world

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
on_reusable = pytest.mark.parametrize("backend", ["aborting", NCCL], indirect=True)
on_gpus = pytest.mark.parametrize("backend", [NCCL], indirect=True)

STALL_NS = 1_000_000_000
STEPS = 4


@pytest.fixture
def world() -> World:
    """Returns a world with both groups, because a layer calls a collective on each."""
    return make_world()


def outputs(run: Run) -> list[list[Any]]:
    """Returns what each rank read of the model: one checksum for each step."""
    return [[one[-1] for one in journal if one[KIND] == "learned" and one[SITE] == "out"] for journal in run.journals]


@on_each
def test_a_replayed_model_gives_what_an_eager_one_gives(backend: TorchBackend, world: World) -> None:
    """Compares eager and captured runs on each backend: equal results bit by bit in each step, and equal journals."""
    seen = {}
    for how in ("eager", "full", "piecewise"):
        run = on_both(backend, world, "real_layers", {"how": how, "steps": STEPS})
        seen[how] = outputs(run)
        replays = [sum(one[KIND] == "replay" for one in journal) for journal in run.journals]
        assert replays == [{"eager": 0, "full": STEPS, "piecewise": 2 * STEPS}[how]] * 2
        if how != "eager":
            assert [one["ran"] for one in decisions(run)] == [(STEPS, True)] * 2
    assert seen["eager"] == seen["full"] == seen["piecewise"]
    assert all(len({*own}) == STEPS for own in seen["eager"]), "each input gives another output"


@on_each
def test_a_capture_refuses_the_same_as_on_the_simulation(backend: TorchBackend, world: World) -> None:
    run = on_both(backend, world, "real_graph_law", {})
    codes = {"reads": 900, "asks": 907, "sums": 900, "looks": 900, "waits": 905, "nests": 902, "leaves": 904}
    assert decisions(run) == [{**codes, "joins": 0, "waits.later": 907}] * 2


@on_each
def test_an_event_that_is_recorded_again(backend: TorchBackend, world: World) -> None:
    run = on_both(backend, world, "real_recorded_again", {})
    assert [len(own) for own in outputs(run)] == [4, 4]


@on_each
def test_a_replay_on_memory_that_was_freed_is_found(backend: TorchBackend, world: World) -> None:
    """Replays a graph on memory that was freed. The replay uses the memory of the capture, and the finding is
    STALE:FREED.
    """
    run, simulated = backend.run(world, "real_freed_input", {}), SimBackend().run(world, "real_freed_input", {})
    assert run.finished
    for one in (run, simulated):
        assert {finding.klass for finding in judge(world, one)} == {"STALE:FREED"}
    assert outputs(run) == outputs(simulated)


# ---- hangs


def good_run(backend: TorchBackend, world: World) -> None:
    """Checks that the next run on the same backend, with graphs, finishes."""
    run = backend.run(world, "real_layers", {"how": "full", "steps": 1})
    assert (run.ends, run.observed) == (["finished"] * 2, "")


def hung(backend: TorchBackend, world: World, cause: str, how: str) -> Run:
    """Returns a run whose last replay hangs on rank 0: rank 1 omits the replay, or its graph lacks a sum."""
    args = {"how": how, "steps": 2} | ({"absent": 1} if cause == "absent" else {})
    faults = (Fault("skip", 1, At("sum", 3)),) if cause == "skipped" else ()
    run = backend.run(replace(world, faults=faults, stall_ns=STALL_NS), "real_layers", args)
    assert "blocked" in run.ends
    assert run.observed == "no rank moved for 1 s"
    assert run.elapsed_ns < 10_000_000_000
    replays = [sum(one[KIND] == "replay" for one in journal) for journal in run.journals]
    if cause == "absent":
        assert replays[0] > replays[1]
    else:
        skipped = [as_record(one) for one in run.journals[1] if one[KIND] == "injected"]
        assert [(one.site, one.ordinal) for one in skipped] == [("sum", 3)]
        kept = [sum(one[KIND] == "kept" and one[SITE] == "sum" for one in journal) for journal in run.journals]
        assert kept == [4, 3]
    return run


@on_reusable
@pytest.mark.parametrize(
    ("cause", "how"),
    slow_but(
        product(("absent", "skipped"), ("full", "piecewise")),
        {("absent", "full")}.__contains__,
    ),
)
def test_a_hang_in_a_replay_is_reported(backend: TorchBackend, world: World, cause: str, how: str) -> None:
    hung(backend, world, cause, how)
    good_run(backend, world)


def lost_bytes(backend: TorchBackend, world: World, run: Callable[[], object]) -> float:
    """Returns how many bytes a GPU loses by `run`. It is a median of several runs, because other workers that start or
    leave can change the number once.
    """
    free = []
    for _ in range(6):
        run()
        free.append([one["free"] for one in decisions(backend.run(world, "real_free_memory", {}))])
    lost = [[before - after for before, after in pairwise(own)] for own in zip(*free, strict=True)]
    return float(max(map(statistics.median, lost)))


@on_gpus
def test_no_memory_of_a_gpu_is_lost_by_hangs(backend: TorchBackend, world: World) -> None:
    assert lost_bytes(backend, world, lambda: hung(backend, world, "absent", "full")) < 8 << 20


@on_gpus
def test_no_memory_of_a_gpu_is_lost_by_graphs(backend: TorchBackend, world: World) -> None:
    assert lost_bytes(backend, world, lambda: good_run(backend, world)) < 1 << 20


# ---- captures that CUDA refuses


@on_gpus
def test_a_kernel_that_waits_for_the_device_cannot_be_captured(backend: TorchBackend, world: World) -> None:
    """Captures a kernel that waits for the device. The error has CUDA's code and the line of the launch, and the next
    run finishes.
    """
    good_run(backend, world)
    before = backend.pool.processes
    run = backend.run(replace(world, stall_ns=STALL_NS), "real_peeks", {"goes_on": False})
    assert run.ends == ["raised", "raised"]
    assert {one["code"] for one in decisions(run)} == {900}
    for journal in run.journals:
        raised: Any = as_record(journal[-1])
        assert (raised.kind, raised.step, raised.site) == ("raised", 5, "CaptureError")
        assert raised.message.startswith("peek: CUDA says")
        first = graph_programs.Peeks.run.__code__.co_firstlineno
        assert raised.where == f"tests/real/graph_programs.py:{first + 7}"
    good_run(backend, world)
    assert not set(before) & set(backend.pool.processes)


@on_gpus
def test_a_program_continues_after_a_refused_capture(backend: TorchBackend, world: World) -> None:
    good_run(backend, world)
    before = backend.pool.processes
    run = backend.run(replace(world, stall_ns=20 * STALL_NS), "real_peeks", {"goes_on": True})
    assert run.finished, run
    assert {one["code"] for one in decisions(run)} == {900}
    good_run(backend, world)
    assert not set(before) & set(backend.pool.processes)


def test_the_simulation_replays_a_kernel_that_waits_for_the_device(world: World) -> None:
    """Runs a kernel that waits for the device on the simulation, which runs the kernel at the replay."""
    assert SimBackend().run(world, "real_peeks", {"goes_on": False}).finished
