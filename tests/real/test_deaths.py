"""Tests of deaths on real backends: peers get the notice and abort their communicators, within the stall time of the
run.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from dpsim.contract.ops import KIND, LEARNED_OUTCOME, RAISED_MESSAGE, SITE
from dpsim.contract.world import At, Fault, Run
from real.backend import TorchBackend
from tests import survivors  # noqa: F401  # registers the test programs
from tests.real import programs  # noqa: F401  # the same
from tests.real.worlds import NCCL, make_world

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
BOTH = {"rounds": 3, "device": True}
STALL_NS = 5_000_000_000
"""A peer has to get the notice within this time."""


def size_on(backend: TorchBackend) -> int:
    """Returns the number of ranks: three, so that one peer is no neighbour of the dead rank; two where each needs a
    GPU.
    """
    return 2 if backend.name == "nccl" else 3


def with_fault(backend: TorchBackend, kind: Any, at: At, program: str = "survivors") -> Run:
    world = make_world(size_on(backend), ["dp"], stall_ns=STALL_NS, faults=(Fault(kind, 1, at),))
    return backend.run(world, program, BOTH)


def good_run(backend: TorchBackend) -> None:
    """Checks that the next run finishes, on communicators that no rank has aborted."""
    run = backend.run(make_world(size_on(backend), ["dp"]), "survivors", BOTH)
    assert (run.ends, run.observed) == (["finished"] * size_on(backend), "")


@pytest.mark.slow
@on_each
def test_an_exception_of_a_peer_ends_a_rank(backend: TorchBackend) -> None:
    run = with_fault(backend, "raise", At("sum", 1))
    assert run.ends == ["raised"] * size_on(backend), run.observed
    good_run(backend)


@pytest.mark.slow
@on_each
@pytest.mark.parametrize("at", [At("watch", 0), At("agree", 0), At("agree", 2), At("sum", 1), At("read", 1)], ids=str)
def test_peers_of_a_dead_rank_end_and_name_it(backend: TorchBackend, at: At) -> None:
    """Runs a rank that dies. The cases exclude its last read: a GPU finishes its work without the process, so no rank
    waits for it any more.
    """
    run = with_fault(backend, "die", at)
    assert run.ends == ["raised", "died", "raised"][: size_on(backend)], run.observed
    for rank in range(0, size_on(backend), 2):
        journal = run.journals[rank]
        assert (journal[-1][KIND], journal[-1][SITE]) == ("raised", "PeerGone")
        told = next(raw[LEARNED_OUTCOME] for raw in journal if raw[KIND] == "learned" and raw[SITE] == "told")
        assert journal[-1][RAISED_MESSAGE] == f"rank {told[1]} is gone"
    good_run(backend)


@pytest.mark.slow
@on_each
@pytest.mark.parametrize("program", ["survivors_blind", "survivors_forgetful"])
def test_the_twins_hang(backend: TorchBackend, program: str) -> None:
    run = with_fault(backend, "die", At("sum", 1), program)
    assert run.ends[0] == "blocked", run.observed
    assert run.ends[2:] == ["raised"][: size_on(backend) - 2], run.observed


@pytest.mark.slow
@on_each
def test_no_rank_learns_of_a_hung_rank(backend: TorchBackend) -> None:
    run = with_fault(backend, "hang", At("agree", 1))
    assert run.ends == ["blocked"] * size_on(backend), run.observed
    good_run(backend)


@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
def test_a_fork_of_a_dead_process_hides_no_death(backend: TorchBackend, tmp_path: Path) -> None:
    """The dead rank has forked a process with copies of all its connections, which outlives the run. It waits for a
    lock that the test holds.
    """
    lock = tmp_path / "lock"
    lock.touch()
    world = make_world(2, ["dp"], stall_ns=STALL_NS, faults=(Fault("die", 1, At("die_here", 0)),))
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run = backend.run(world, "real_forks", {"lock": str(lock)})
    assert (run.lost, run.ends) == ("", ["finished", "died"]), run.observed
    told = [raw[LEARNED_OUTCOME] for raw in run.journals[0] if raw[KIND] == "learned"]
    assert told == [("gone", 1)]
