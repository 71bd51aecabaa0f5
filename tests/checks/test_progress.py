"""Tests the bound `progress`: after the last fault, a run has to end within this number of ops of a rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Delay, Fault, Kill, World
from dpsim.diagnose.words.told import Told
from tests.judged import told_of
from tests.programs import Script, Scripted, explored, judged, world_of

SECOND = 1_000_000_000
BOUND = 40
WORLD = world_of(2, hosts=["h"], faults=(Fault("die", 1, At("set", 2)),), progress=BOUND)


def asks(patience: int) -> Script:
    """Rank 1 sets keys. Rank 0 gets each of them, and repeats a get after each time-out, up to `patience` times (0:
    without end).
    """

    async def script(rank: Rank) -> None:
        if rank.rank == 1:
            store = await rank.join_store(0, 5, "join")
            assert store is not None
            for number in range(5):
                store.set(f"k{number}", number, "set")
                await rank.mailbox("go").get("go")
            return
        store = await rank.open_store(5, "open")
        assert store is not None
        for number in range(5):
            tries = 0
            while await store.get(f"k{number}", "get", timeout_ns=SECOND + tries) is None:
                tries += 1
                if tries == patience:
                    return
            rank.send(1, "go", number, "send")

    return script


FOR_EVER, THRICE = asks(0), asks(3)


def found(script: Script, world: World, timed: bool) -> list[Told]:
    if timed:
        return judged(world, script)
    return told_of(explored(world, script))


@pytest.mark.parametrize("timed", [True, False])
def test_an_endless_poll_after_a_death(timed: bool) -> None:
    """A rank repeats a get without end. It is no hang, because events happen, and no livelock, because a time-out is no
    repetition.
    """
    finding, *_ = found(FOR_EVER, WORLD, timed)
    assert (finding.klass, finding.check) == ("PROGRESS:BOUND", "progress")
    assert finding.message == "rank 0 issued more than 40 ops after the last fault, and the run has no end"
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.site) == (0, "get")
    assert finding.details[0].startswith("rank 0 went through ")
    assert "get k2 at port 5 of node 0 (get, tests/checks/test_progress.py:" in finding.details[0]


@pytest.mark.parametrize("timed", [True, False])
def test_twin_a_program_that_gives_up_has_only_the_death(timed: bool) -> None:
    assert [one.klass for one in found(THRICE, WORLD, timed)] == ["DEATH:RANK"]


def test_a_kill_in_every_schedule() -> None:
    """The explorer kills rank 1 at each point, without findings about the death itself or hangs. Only the get without
    end is a violation.
    """
    killed = replace(WORLD, faults=(), kills=(Kill(1),))
    for script, verdict in ((FOR_EVER, "violated"), (THRICE, "proven")):
        subject = Subject(killed, Scripted(script), switched_off=("DEATH", "HANG"))
        assert explore_subject(subject, "dpor", schedules=1_000).verdict == verdict


async def works(rank: Rank) -> None:
    """Makes 50 ops: 25 at site "before" and 25 at site "after", for faults at either."""
    for number in range(50):
        await rank.sleep(1, "before" if number < 25 else "after")


@pytest.mark.parametrize(
    ("bound", "delay", "overdue"),
    [(50, None, False), (49, None, True), (26, "after", False), (24, "after", True), (26, "before", True)],
)
def test_each_fault_makes_the_counts_begin_anew(bound: int, delay: str | None, overdue: bool) -> None:
    """The count restarts at each fault, here at a delay of rank 0 at one op."""
    at = 0 if delay == "after" else 10
    delays = () if delay is None else (Delay(0, At(delay, at), 5),)
    world = world_of(1, hosts=["h"], delays=delays, progress=bound)
    assert [one.klass for one in judged(world, works)] == ["PROGRESS:BOUND"] * overdue


def test_a_run_without_progress_is_a_hang() -> None:
    async def waits(rank: Rank) -> None:
        await rank.mailbox("box").get("get")

    assert {one.klass for one in judged(replace(WORLD, faults=()), waits)} == {"HANG:MAILBOX:NO_MESSAGE"}


@pytest.mark.parametrize("timed", [True, False])
def test_a_healthy_run_that_is_cut_is_no_hang(timed: bool) -> None:
    """The bound cuts a healthy run off, while ranks wait in collectives that a peer has not reached yet. The only
    finding is the bound.
    """

    async def agrees(rank: Rank) -> None:
        for rank.step in range(20):
            await rank.sleep(1 + rank.rank, "work")
            await rank.host("h").all_reduce(np.array([1], np.int32), site="agree")

    finding, *others = found(agrees, world_of(2, hosts=["h"], progress=15), timed)
    assert (finding.klass, others) == ("PROGRESS:BOUND", [])
    assert finding.message.endswith(" issued more than 15 ops, and the run has no end")
    assert found(agrees, world_of(2, hosts=["h"], progress=40), timed) == []
