"""Tests of communicators that ranks create at their first use. The host waits in this call until all members have
called.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import CaptureError
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.sim.backend import SimBackend
from dpsim.testing import check_backend
from real.backend import TorchBackend
from real.communicators import Group
from real.lazy import MadeHere
from real.waiting import Patience, Unfinished
from tests.real import programs, service_programs  # noqa: F401  # registers the test programs
from tests.real.null_device import NullCalls, null_rank
from tests.real.worlds import NCCL, make_world
from tests.records import unplaced

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
on_reusable = pytest.mark.parametrize("backend", ["aborting", NCCL], indirect=True)


@on_each
def test_a_first_use_is_as_on_the_simulation(backend: TorchBackend, world: World) -> None:
    """Compares two runs with the simulation. Each job creates its communicators anew, though the pool keeps them."""
    world = replace(world, lazy=True)
    simulated = SimBackend().run(world, "real_lazy", {"how": "meets"})
    for _ in range(2):
        run = backend.run(world, "real_lazy", {"how": "meets"})
        assert run.ends == simulated.ends == ["finished", "finished"]
        for one, other in zip(run.journals, simulated.journals, strict=True):
            assert unplaced(one) == unplaced(other)
    refused = [one[DECISION_VALUE] for one in run.journals[0] if one[KIND] == "decision" and one[SITE] == "refused"]
    assert refused == [900]


@pytest.mark.slow
@on_reusable
def test_a_host_that_never_joins_a_first_use_blocks_its_peers(backend: TorchBackend, world: World) -> None:
    """Runs a rank that waits while its peer uses a group for the first time, so both hang. In the twin the
    communicators already exist, and the program finishes.
    """
    world = replace(world, stall_ns=1_000_000_000)
    run = backend.run(replace(world, lazy=True), "real_lazy", {"how": "one_is_busy"})
    assert (run.ends, run.observed) == (["blocked", "blocked"], "no rank moved for 1 s")
    assert run.journals[0][-1][SITE] == "first"
    before = backend.pool.processes
    assert backend.run(world, "real_lazy", {"how": "one_is_busy"}).finished
    assert backend.pool.processes == before, "the worker gives up its wait and is used again"


@pytest.mark.slow
@on_each
@pytest.mark.parametrize("how", ["one_is_busy", "grouped"])
def test_a_first_use_that_hangs_is_the_finding_of_the_simulation(backend: TorchBackend, how: str) -> None:
    """Compares the finding with the simulation's. The twin is `one_is_busy` with existing communicators, which
    finishes.
    """
    reason = backend.unavailable(3)
    if reason is not None:
        pytest.skip(reason)
    world = replace(make_world(3, ["dp"], stall_ns=1_000_000_000), lazy=True)
    found = judge(world, backend.run(world, "real_lazy", {"how": how}))
    assert found == judge(world, SimBackend().run(world, "real_lazy", {"how": how}))
    assert (found[0].klass, found[0].culprit and found[0].culprit.rank) == ("HANG:HOST:FIRST_USE", 0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
def test_a_pair_of_three_ranks_has_its_own_communicator(backend: TorchBackend) -> None:
    check_backend(backend, size=3, only="lazy")


# ---- without processes


class Counter:
    """A counter of a store that the other members reach after `looks` polls."""

    def __init__(self, looks: int) -> None:
        self.count = 0
        self.looks = looks

    def add(self, key: str, more: int) -> int:
        self.looks -= 1
        self.count += more + (self.looks == 0)
        return self.count


SPEC = CommunicatorSpec("dp", "dp", "device", (0, 1))


def test_a_rendezvous_is_once_for_each_set_of_members() -> None:
    store = Counter(5)
    made = MadeHere(Group(SPEC, None, store), Patience(threading.Event(), polls=True))
    assert not made.knows((0, 1))
    made.meet((0, 1))
    assert (store.count, store.looks, made.knows((0, 1))) == (2, 0, True)
    made.meet((0, 1))
    assert store.looks == 0, "the second meeting makes no call of the store"


def test_a_rendezvous_can_be_called_off() -> None:
    over = threading.Event()
    over.set()
    with pytest.raises(Unfinished):
        MadeHere(Group(SPEC, None, Counter(1 << 30)), Patience(over, polls=True)).meet((0, 1))


def test_a_gpu_s_calls_wait_for_the_rendezvous() -> None:
    """Uses a group on a GPU that does nothing. The host waits for the members once, before the call of the process
    group. A capture refuses to create a communicator.
    """
    calls = NullCalls()
    rank = null_rank(calls, lazy=True)
    main, group = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    told: list[str] = []

    class Told(Counter):
        def add(self, key: str, more: int) -> int:
            told.append(f"{key}: {sum('allreduce' in one for one in calls.told)} calls")
            return super().add(key, more)

    owner: Any = group
    owner.made = MadeHere(Group(SPEC, None, Told(2)), rank.patience)
    with pytest.raises(CaptureError, match="communicator dp is made at its first use"):
        _captured(rank, lambda: group.all_reduce(buffer, main))
    for _ in range(2):
        group.all_reduce(buffer, main)
    assert told == ["dp (0, 1): 0 calls"] * 2
    assert sum("allreduce" in one for one in calls.told) == 2


def _captured(rank: Any, call: Any) -> None:
    async def capture() -> None:
        async with rank.graph("g").capture(rank.stream("main")):
            call()

    capture().send(None)
