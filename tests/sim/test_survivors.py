"""Tests the example protocol `Survivors`, whose peers survive a death. If a rank dies or raises at any point, each peer
ends with an error that names it. The faulty twins `Blind` and `Forgetful` hang.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.ops import KIND, RAISED_MESSAGE
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Kill, Run, World
from dpsim.sim.backend import SimBackend
from tests.programs import world_of
from tests.survivors import Blind, Forgetful, Survivors
from tests.unnoticed import notices_text, ops_until_notice

ENDED = ("DEATH", "CRASH:PEERGONE", "CRASH:INJECTEDERROR")
BOTH = {"device": True, "rounds": 2}


def world(size: int, **more: Any) -> World:
    return world_of(size, ["dp_cpu"], ["dp"], **more)


def explored(world: World, program: Program[Any], args: Any, schedules: int = 10_000) -> Explored:
    return explore_subject(Subject(world, program, args, switched_off=ENDED), "dpor", schedules=schedules)


def run(world: World, program: Program[Any], args: Any = BOTH) -> Run:
    return SimBackend().run_program(world, program, args)


def test_without_a_death_all_finish() -> None:
    assert run(world(3), Survivors()).ends == ["finished"] * 3


ADDRESSES = [At("watch", 0), At("agree", 1), At("put", 0), At("sum", 1), At("read", 0), At("told", 0, thread="monitor")]


@pytest.mark.parametrize("kind", ["die", "raise"])
@pytest.mark.parametrize("at", ADDRESSES, ids=str)
def test_every_peer_ends_and_names_the_dead_rank(kind: Any, at: At) -> None:
    done = run(world(3, faults=(Fault(kind, 1, at),)), Survivors())
    if kind == "raise" and at.thread != "main":
        assert done.ends == ["finished", "raised", "finished"], (
            "the thread raises after main has ended, since no thread joined it"
        )
        return
    assert done.ends == ["raised", "died" if kind == "die" else "raised", "raised"]
    said = {done.journals[rank][-1][RAISED_MESSAGE] for rank in (0, 2)}
    assert all(done.journals[rank][-1][KIND] == "raised" for rank in (0, 2))
    assert said <= {f"rank {rank} is gone" for rank in (0, 1, 2)}
    told = ops_until_notice(done.journals, 1)
    assert set(told) == {0, 2}


@pytest.mark.slow
def test_a_kill_at_any_point_ends_every_peer() -> None:
    found = explored(world(2, kills=(Kill(1),)), Survivors(), {})
    assert found.verdict == "proven", found.findings


@pytest.mark.slow
def test_a_kill_that_takes_any_part_with_it_ends_every_peer() -> None:
    found = explored(world(2, kills=(Kill(1, partial=True),)), Survivors(), {})
    assert found.verdict == "proven", found.findings


@pytest.mark.nightly
def test_a_kill_at_any_point_ends_every_peer_of_a_device() -> None:
    found = explored(world(2, kills=(Kill(1),)), Survivors(), {"device": True}, 40_000)
    assert found.verdict == "proven", found.findings


@pytest.mark.parametrize("program", [Blind(), Forgetful()])
def test_the_twins_hang(program: Program[Any]) -> None:
    found = explored(world(2, kills=(Kill(1),)), program, {"device": True})
    assert "HANG:COLLECTIVE:DEAD_RANK" in {finding.klass for finding in found.findings}


def test_a_watcher_of_a_hung_rank_hangs() -> None:
    """A rank that hangs without end is not gone, so its watchers hang too."""
    done = run(world(3, faults=(Fault("hang", 1, At("agree", 1)),)), Survivors())
    assert done.ends == ["blocked"] * 3


def test_the_report_counts_the_ops_until_each_rank_learns_of_a_death() -> None:
    done = run(world(3, faults=(Fault("die", 1, At("agree", 1)),)), Survivors())
    assert notices_text(done, 1) == "rank 1 is gone: told were rank 0 within 5 ops, rank 2 within 5 ops; K = 5"
    blind = run(world(2, faults=(Fault("die", 1, At("agree", 1)),)), Blind())
    assert notices_text(blind, 1) == "rank 1: no rank learned of its end"
