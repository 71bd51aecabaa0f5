"""Tests the fault kind `insert` on real processes: the journals are those of the simulation, and the run finishes. The
faulty twin is the same run without the fault.
"""

from __future__ import annotations

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.world import At
from dpsim.sim.backend import SimBackend
from dpsim.testing.bench import Bench
from real.backend import TorchBackend
from tests.backend.inserted_programs import CALLS, insert, world
from tests.real.worlds import NCCL

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.slow]


@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
def test_an_inserted_call_pairs_up_with_those_of_the_peers(backend: TorchBackend, device: bool) -> None:
    bench = Bench(backend, 2, "inserted", "an inserted call is a call of its rank")
    for name in CALLS:
        if device and name == "barrier":
            continue
        fault = insert(name, At("next", 1), device)
        run = backend.run(world(fault), "t_inserted", (name, device))
        assert run.finished, name
        assert not judge(world(fault), run), name
        bench.same(run, SimBackend().run(world(fault), "t_inserted", (name, device)))


@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
def test_without_the_fault_the_run_hangs(backend: TorchBackend) -> None:
    assert not backend.run(world(), "t_inserted", ("all_to_all", True)).finished
