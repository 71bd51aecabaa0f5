"""Tests of mismatched collectives on hardware: dpsim reports the same finding on every backend.

A library does not compare the calls of a group's members. If they differ, NCCL and gloo may complete with undefined
numbers, hang at that call or a later one, or end the process. The result depends on version, size and transport.

dpsim's journals do not depend on what the library does with mismatched calls. Each rank records its call before it
makes the call, and the check compares the calls step by step. So the same program gets the same class and the same
culprit on every backend.

The table `CERTAIN` lists what real machines do in the certain cases. A stream or host that waits for a call that no
rank makes never returns. A broadcast against an all_reduce hangs, on NCCL 2.28 perhaps one call later.

Other cases vary between machines. With 64 bytes, NCCL 2.28 hung on another count and on another root among 4 H200 GPUs,
but completes them on other machines. There a broadcast's root does not wait for its receivers. So a root that
broadcasts too early continues, and so do all others.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.world import Run, World
from dpsim.sim.backend import SimBackend
from real.backend import TorchBackend
from tests.properties import slow_but
from tests.real import programs, unequal_program  # noqa: F401  # registers the test programs
from tests.real.worlds import make_world

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

CLASSES = {
    "count": "MISMATCH:COLLECTIVE:COUNT",
    "dtype": "MISMATCH:COLLECTIVE:DTYPE",
    "root": "MISMATCH:COLLECTIVE:ROOT",
    "reduce": "MISMATCH:COLLECTIVE:REDUCE",
    "op": "MISMATCH:COLLECTIVE:OP",
    "order": "HANG:COLLECTIVE:MISSING_RANK",
    "rank": "HANG:COLLECTIVE:MISSING_RANK",
}
"""What the program does differently, and the class of the primary finding. A rank may hang in the second call before it
made the first one. Then the finding says that it omitted the first call, even if it would have made it later. The cycle
is the second finding.
"""

CERTAIN = {
    "sim": dict.fromkeys(["count", "dtype", "root", "reduce", "op"], "completes") | {"order": "hangs", "rank": "hangs"},
    "gloo": {"op": "hangs", "order": "hangs", "rank": "hangs"},
    "nccl": {"order": "hangs", "rank": "hangs"},
    "nccl 2.28": {"op": "hangs"},
}

REAL = [
    pytest.param("aborting", 2, id="gloo"),
    pytest.param("nccl", 4, id="nccl", marks=pytest.mark.gpu(4)),
]
"""gloo whose workers survive a hang, which saves their start."""


def certain(run: Run, what: str) -> str | None:
    """Returns the certain outcome on this library version, or None."""
    version = ".".join(run.versions.get("nccl", "").split(".")[:2])
    return {**CERTAIN[run.backend], **CERTAIN.get(f"nccl {version}", {})}.get(what)


def outcome(run: Run) -> str:
    if run.finished:
        return "completes"
    return "crashes" if {"died", "raised"} & {*run.ends} else "hangs"


def said(world: World, run: Run) -> tuple[str, tuple[int, int, str] | None]:
    """Returns the class and the culprit of the primary finding."""
    found = judge(world, run)
    assert found, f"nothing was found; the ranks ended as {run.ends}, {run.observed}"
    culprit = found[0].culprit
    return found[0].klass, (culprit.rank, culprit.step, culprit.site) if culprit is not None else None


def both(backend: TorchBackend, size: int, what: str) -> tuple[World, Run, Run]:
    """Runs the program on the backend and on the simulation. Afterwards a healthy program must finish on the
    backend.
    """
    reason = backend.unavailable(size)
    if reason is not None:
        pytest.skip(reason)
    world = make_world(size, stall_ns=1_000_000_000)
    real = backend.run(world, "real_mismatch", {"what": what})
    after = backend.run(replace(world, stall_ns=60_000_000_000), "real_mismatch", {"what": "nothing"})
    assert after.finished, after.observed
    assert judge(world, after) == []
    return world, real, SimBackend().run(world, "real_mismatch", {"what": what})


@pytest.mark.parametrize(("backend", "size"), REAL, indirect=["backend"])
@pytest.mark.parametrize("what", slow_but(CLASSES, ("order",).__contains__))
def test_a_mismatch_is_the_same_finding_whatever_the_hardware_makes_of_it(
    backend: TorchBackend, size: int, what: str
) -> None:
    world, real, simulated = both(backend, size, what)
    culprit = (0, 2, "tell" if what == "root" else "sum")
    assert said(world, simulated) == (CLASSES[what], culprit)
    assert said(world, real) == (CLASSES[what], culprit), f"it {outcome(real)}: {real.observed}"
    print(f"{backend.name}: another {what} {outcome(real)}")
    for run in simulated, real:
        assert outcome(run) == (certain(run, what) or outcome(run)), run.observed
        if what == "order":
            assert "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS" in [finding.klass for finding in judge(world, run)]


@pytest.mark.parametrize("backend", ["aborting"], indirect=True)
@pytest.mark.parametrize("meets", [False, True])
@pytest.mark.slow
def test_a_transfer_that_aborts_gloo_is_reported_as_a_mismatch(backend: TorchBackend, meets: bool) -> None:
    """Runs a transfer in which rank 1 receives less than rank 0 sends. gloo ends the process by SIGABRT, and dpsim
    reports the mismatch. In the twin both counts are equal.
    """
    world = make_world(stall_ns=1_000_000_000)
    run = backend.run(world, "real_unequal", {"sent": 2, "received": 1, "meets": meets})
    assert run.ends[1] == "died", run.observed
    simulated = SimBackend().run(world, "real_unequal", {"sent": 2, "received": 1, "meets": meets})
    assert judge(world, run)[0] == judge(world, simulated)[0]
    assert judge(world, run)[0].klass == "MISMATCH:TRANSFER:COUNT"
    twin = backend.run(make_world(), "real_unequal", {"sent": 2, "received": 2, "meets": meets})
    assert judge(world, twin) == []


@pytest.mark.parametrize(("backend", "size"), REAL, indirect=["backend"])
@pytest.mark.slow
def test_streams_that_wait_for_one_another_while_their_hosts_ran_ahead(backend: TorchBackend, size: int) -> None:
    """Runs two calls in different orders on two streams while the hosts run ahead. All ranks make both calls."""
    world, real, simulated = both(backend, size, "order of streams")
    assert outcome(real) == outcome(simulated) == "hangs"
    assert said(world, real) == said(world, simulated)


@pytest.mark.parametrize(("back", "ends"), [("dp", "hangs"), ("ep", "completes")])
@pytest.mark.parametrize("backend", [pytest.param("nccl", id="nccl", marks=pytest.mark.gpu(2))], indirect=True)
def test_an_early_receive_blocks_a_send_on_the_same_communicator(backend: TorchBackend, back: str, ends: str) -> None:
    """Checks an early receive that blocks a send on one communicator, as in the simulation. NCCL keeps the order of a
    rank's calls on a communicator across streams. gloo does not.
    """
    reason = backend.unavailable(2)
    if reason is not None:
        pytest.skip(reason)
    world = make_world(2, stall_ns=2_000_000_000)
    assert outcome(SimBackend().run(world, "real_answered", {"back": back})) == ends
    assert outcome(backend.run(world, "real_answered", {"back": back})) == ends
