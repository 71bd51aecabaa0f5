"""Tests that a program has the same journals on a real backend as on the simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STREAM
from dpsim.contract.world import At, CommunicatorSpec, Delay, Fault, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.testing import check_backend
from dpsim.testing.conformance.program import PARTS
from real.backend import TorchBackend
from tests.checks.held import held_against
from tests.protocols import agreed
from tests.real import programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL, make_world
from tests.records import unplaced

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)]


def on_both(backend: TorchBackend, world: World, program: str, args: Any) -> Run:
    """Runs a program on the backend and on the simulation. Compares the journals record by record, and checks the
    certificate of both runs.
    """
    reason = backend.unavailable(world.size)
    if reason is not None:
        pytest.skip(reason)
    real = backend.run(world, program, args)
    simulated = SimBackend().run(world, program, args)
    assert real.ends == simulated.ends == ["finished"] * world.size
    for rank in range(world.size):
        assert unplaced(real.journals[rank]) == unplaced(simulated.journals[rank]), f"rank {rank}"
    for run in (real, simulated):
        held_against(world, run, (program, run.backend))
    return real


def decisions(run: Run) -> list[dict[str, Any]]:
    """Returns the decisions of each rank, by label."""
    return [
        {record[SITE]: record[DECISION_VALUE] for record in journal if record[KIND] == "decision"}
        for journal in run.journals
    ]


@pytest.mark.parametrize(("on_device", "stream"), [(False, None), (True, "main")], ids=["host", "device"])
def test_agreement_in_both_domains(backend: TorchBackend, on_device: bool, stream: str | None) -> None:
    args = agreed({"steps": 6, "tokens": [5, 0, 3], "on_device": on_device}).arguments()
    run = on_both(backend, make_world(), "t_agree", args)
    agreements = [record for record in run.journals[0] if record[KIND] == "collective" and record[SITE] == "dp.agree"]
    assert {record[STREAM] for record in agreements} == {stream}
    assert run.backend == backend.name
    assert "torch" in run.versions
    assert run.observed == ""
    assert 0 < max(run.waited_ns) <= run.elapsed_ns


def test_subgroups_and_their_roots(backend: TorchBackend, world: World) -> None:
    """Runs collectives in subgroups. A root is a global rank: 3 is no index in a group of two."""
    on_both(backend, world, "real_rounds", {"rounds": 1})
    pair = backend.pool.processes[:2]
    groups = [("a", (0, 2)), ("b", (1, 3))]
    specs = [CommunicatorSpec("dp_cpu", f"host.{name}", "host", ranks) for name, ranks in groups]
    specs += [CommunicatorSpec("dp", f"device.{name}", "device", ranks) for name, ranks in groups]
    decided = decisions(on_both(backend, World(4, tuple(specs)), "real_groups", {}))
    for rank in (0, 2):
        assert decided[rank] == {"sum": (101.0,) * 6, "last": 100.0, "device.last": (2,) * 6}
    for rank in (1, 3):
        assert decided[rank] == {"sum": (1010.0,) * 6, "last": 1000.0, "device.last": (3,) * 6}

    assert len(backend.pool.crew.workers) == 4
    on_both(backend, world, "real_rounds", {"rounds": 2})  # a world may be smaller than the pool
    assert len(backend.pool.crew.workers) == 4
    assert backend.pool.processes[:2] == pair  # the pool grew, and restarted no worker


@pytest.mark.slow
def test_three_ranks_make_every_call(backend: TorchBackend) -> None:
    """Runs the suite with three ranks. In tests/testing/test_check_backend.py each of two ranks has one peer only."""
    reason = backend.unavailable(3)
    if reason is not None:
        pytest.skip(reason)
    check_backend(backend, size=3, only=[*PARTS])


def test_a_group_of_one(backend: TorchBackend) -> None:
    run = on_both(backend, make_world(1), "real_rounds", {"rounds": 1})
    assert decisions(run) == [{"host.sum": 4, "device.sum": 4, "end.sum": 1}]


@pytest.mark.slow
def test_delays_change_nothing_but_time(backend: TorchBackend, world: World) -> None:
    delays = (
        Delay(0, At(), 100_000_000),
        Delay(0, At("host", 0), 200_000_000),
        Delay(1, At("fill", 0), 200_000_000),
        Delay(1, At(communicator="dp", seq=0), 200_000_000),
        Delay(0, At("read", None), 200_000_000),
    )
    run = on_both(backend, replace(world, delays=delays), "real_rounds", {"rounds": 1})
    # Each delay affects all later ops. A spin on the device counts cycles of a clock, which may be faster than
    # measured.
    spins = 600_000_000 * (0.8 if backend.name == "nccl" else 1.0)
    assert run.elapsed_ns > 300_000_000 + spins
    assert run.waited_ns[1] > 200_000_000  # rank 0 is late at the first collective, and rank 1 waits


@pytest.mark.slow
def test_delays_do_not_count_as_a_stall(backend: TorchBackend, world: World) -> None:
    """Delays a call for longer than the stall time."""
    late = Delay(1, At(communicator="dp", seq=1), 1_500_000_000)
    run = backend.run(replace(world, delays=(late,), stall_ns=1_200_000_000), "real_rounds", {"rounds": 2})
    assert run.finished, run.observed


def test_skipped_everywhere_is_no_hang(backend: TorchBackend, world: World) -> None:
    """Skips calls on all ranks. A skipped host collective returns its own input; one on the device keeps the buffer."""
    skips = tuple(Fault("skip", rank, At(site, 0)) for rank in (0, 1) for site in ("host", "device"))
    run = on_both(backend, replace(world, faults=skips), "real_rounds", {"rounds": 1})
    for rank, decided in enumerate(decisions(run)):
        assert decided == {"host.sum": 4 * (rank + 1), "device.sum": 4 * (rank + 1), "end.sum": 2}


def test_progress_reports_the_step_of_rank_0(backend: TorchBackend, world: World) -> None:
    seen: list[int] = []
    delay = Delay(0, At("end", 0), 700_000_000)
    run = backend.run(replace(world, delays=(delay,)), "real_rounds", {"rounds": 3}, seen.append)
    assert run.finished
    assert seen[-1] == 2
