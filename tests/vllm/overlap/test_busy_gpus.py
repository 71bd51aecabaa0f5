"""Tests on two GPUs that one microbatch communicates while the other one computes.

spinning       eight layers, as computed in test_speed_up: all communication but the last overlaps a computation
spinning-late  M-BT-4, which serializes: no kernel of one stream runs while a kernel of the other runs
"""

from __future__ import annotations

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.contract.world import World
from dpsim.runner import find_backend
from dpsim.vllm.config import Topology
from dpsim.vllm.params.communicators import communicators
from tests.vllm.overlap.busy_program import FORWARDS, Busy, busy

pytest.importorskip("torch")

PROFILER_NS = 60_000_000_000
"""A stall that is longer than the start of torch's profiler: 4 s in a fresh process, and over 5 s in an old one."""


def test_busy_counts_the_time_of_overlapping_kernels() -> None:
    kernels = {7: [(0, 4_000), (6_000, 9_000)], 8: [(2_000, 6_500)], 9: [(0, 1_000)]}
    assert busy(kernels) == Busy(7_000, 4_500, 2_000)


@pytest.mark.gpu(2)
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("name", FORWARDS)
def test_microbatches_on_two_gpus_overlap_in_time(name: str) -> None:
    world = World(2, communicators(Topology(data_parallel_size=2)), stall_ns=PROFILER_NS)
    run = find_backend("nccl").run(world, "dbo_profiled", name)
    assert run.finished, run.lost or [journal[-1] for journal in run.journals]
    for journal in run.journals:
        [told] = [Busy(*raw[DECISION_VALUE]) for raw in journal if raw[KIND] == "decision" and raw[SITE] == "busy"]
        shorter = min(told.compute, told.comm)
        assert shorter > 0
        if name == "spinning-late":
            assert told.both < shorter / 1_000, told  # the profiler shows consecutive kernels with 1 us of overlap
        else:
            assert told.both >= shorter * 9 / 10, told  # 31 of 32 all-to-alls run beside an op of the other stream
