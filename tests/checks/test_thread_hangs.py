"""Tests hangs of host threads within a rank: the finding says which thread waits for what, at which line, and why no
thread releases it.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import Run, World
from dpsim.diagnose.report import report
from dpsim.diagnose.words.told import Told
from dpsim.sim.backend import SimBackend
from tests.judged import judge
from tests.programs import Script, world_of
from tests.sim.test_threads import done, raises
from tests.worlds.random_threads import threaded_case


def found(script: Script, world: World | None = None) -> tuple[list[Told], Run]:
    world = world or world_of(1, hosts=["h"])
    run = done(script, world)
    return judge(world, run), run


def waits_for(name: str) -> Any:
    async def waits(rank: Rank) -> None:
        await rank.flag(name).wait(f"{name}.wait")

    return waits


async def meets(rank: Rank) -> None:
    await rank.host("h").barrier(site="meet")


async def no_thread_sets(rank: Rank) -> None:
    await rank.start("u1", waits_for("ready")).join("join")


async def ends_without(rank: Rank) -> None:
    async def sets(rank: Rank) -> None:
        if rank.rank == 1:
            rank.flag("ready").set("ready.set")

    rank.start("u1", sets)
    await rank.flag("ready").wait("ready.wait")
    await meets(rank)


async def sets_another(rank: Rank) -> None:
    thread = rank.start("u1", waits_for("ready"))
    rank.flag("done").set("done.set")
    await thread.join("join")


async def wakes_too_early(rank: Rank) -> None:
    async def waits(rank: Rank) -> None:
        await rank.sleep(10, "nap")
        rank.flag("ready").clear("ready.clear")
        await rank.flag("ready").wait("ready.wait")

    rank.start("u1", waits)
    rank.flag("ready").set("ready.set")


async def hand_round(rank: Rank) -> None:
    for name in "ab":
        rank.flag(name).set(f"{name}.set")
        rank.flag(name).clear(f"{name}.clear")

    async def other(rank: Rank) -> None:
        rank.flag("a").set("a.set")
        rank.flag("a").clear("a.clear")
        await rank.flag("b").wait("b.wait")

    rank.start("u1", other)
    await rank.sleep(10, "nap")
    await rank.flag("a").wait("a.wait")


async def joins_itself(rank: Rank) -> None:
    async def joins(rank: Rank) -> None:
        await own[0].join("own")

    own = [rank.start("u1", joins)]


async def joins_the_idle(rank: Rank) -> None:
    async def idles(rank: Rank) -> None:
        await rank.mailbox("box").get("idle", idle=True)

    await rank.start("u1", idles).join("join")


@pytest.mark.parametrize(
    ("script", "klass", "thread", "said"),
    [
        (no_thread_sets, "HANG:FLAG:NEVER_SET", "u1", "ready (ready.wait, {here}), which no thread ever set: main"),
        (
            sets_another,
            "HANG:FLAG:NEVER_SET",
            "u1",
            "ever set, while main set flag done instead (done.set, {here}): main",
        ),
        (wakes_too_early, "HANG:FLAG:CLEARED", "u1", "which main set last (ready.set, {here}) and it cleared"),
        (hand_round, "HANG:FLAG:CYCLE", "main", "u1 waits for flag b (b.wait, {here}), which main set last"),
        (joins_itself, "HANG:JOIN", "u1", "u1 joins u1 (own, {here})"),
        (joins_the_idle, "HANG:JOIN", "main", "joins thread u1 (join, {here}), which is blocked in idle box"),
    ],
)
def test_the_report_names_the_waiting_thread_and_why_no_thread_releases_it(
    script: Script, klass: str, thread: str, said: str
) -> None:
    [finding], run = found(script)
    assert finding.klass == klass
    assert finding.culprit is not None
    assert finding.culprit.thread == thread
    pieces = said.split("{here}")
    assert all(piece in finding.message for piece in pieces), finding.message
    assert "tests/checks/test_thread_hangs.py:" in finding.message
    text = report(run, [finding], full=True)
    assert "<- did not return" in text
    assert "rank 0 u1" in text


@pytest.mark.parametrize("script", [no_thread_sets, hand_round, wakes_too_early])
def test_no_other_flag_is_named_that_a_thread_awaits_or_set_for_itself(script: Script) -> None:
    """The finding names no other flag as set by mistake if a thread waits for that flag, or if the thread set it for
    itself.
    """
    [finding], _ = found(script)
    assert "instead" not in finding.message


def test_a_thread_that_ended_on_one_rank_and_set_the_flag_on_another() -> None:
    """On rank 0 a thread ends without setting the flag. Rank 1 waits for rank 0 in a barrier, which is no separate
    finding.
    """
    findings, _ = found(ends_without, world_of(2, hosts=["h"]))
    assert [finding.klass for finding in findings] == ["HANG:FLAG:THREAD_ENDED"]
    assert "thread u1 of rank 1 set its own (ready.set" in findings[0].message
    assert findings[0].message.endswith("u1 has ended (step 0)")
    assert findings[0].culprit is not None
    assert (findings[0].culprit.rank, findings[0].culprit.thread) == (0, "main"), "no record says what it did instead"
    assert any(line.startswith("h #0: 1 of 2 joined: rank 1") for line in findings[0].details)


def test_a_raising_rank_is_reported_before_waiting_ranks() -> None:
    async def script(rank: Rank) -> None:
        rank.start("u1", raises)
        await rank.flag("ready").wait("ready.wait")

    findings, _ = found(script)
    assert [finding.klass for finding in findings] == ["CRASH:VALUEERROR", "HANG:FLAG:THREAD_ENDED"]
    assert findings[0].culprit is not None
    assert (findings[0].culprit.thread, findings[0].culprit.where[:24]) == ("u1", "tests/sim/test_threads.p")
    assert "u1 raised ValueError: bad (tests/sim/test_threads.py:" in findings[1].message


def test_a_rank_whose_thread_waits_in_a_collective_names_what_its_peer_waits_for() -> None:
    """The main thread joins a thread that waits in a collective. The report names what this thread waits for, also on
    the peer.
    """

    async def left_out(rank: Rank) -> None:
        if rank.rank == 0:
            await rank.start("u1", meets).join("join")

    async def within(rank: Rank) -> None:
        async def later(rank: Rank) -> None:
            await rank.flag("go").wait("go.wait")
            await meets(rank)

        await rank.start("u1", later if rank.rank else meets).join("join")

    world = world_of(2, hosts=["h"])
    assert found(left_out, world)[0][0].klass == "HANG:COLLECTIVE:MISSING_RANK"
    [finding], _ = found(within, world)
    assert (finding.klass, finding.culprit and finding.culprit.rank) == ("HANG:FLAG:NEVER_SET", 1)


def test_a_flag_that_is_waited_for_beside_a_hang_is_not_its_cause() -> None:
    """The thread that would set the flag is blocked in a collective, so the flag is not the cause of the hang."""

    async def script(rank: Rank) -> None:
        rank.start("u1", waits_for("stop"))
        if rank.rank == 0:
            await meets(rank)
        rank.flag("stop").set("stop.set")

    findings, _ = found(script, world_of(2, hosts=["h"]))
    assert not any(finding.klass.startswith("HANG:FLAG") for finding in findings)
    assert findings


def test_ranks_that_hang_alike_are_reported_once() -> None:
    [finding], _ = found(no_thread_sets, world_of(3, hosts=["h"]))
    assert finding.message.startswith("thread u1 of ranks 0 to 2 waits for flag ready")
    assert finding.culprit is not None
    assert str(finding.culprit).startswith(
        "every rank, thread u1, step 0, ready.wait at tests/checks/test_thread_hangs.py:"
    )


def test_of_some_ranks_that_hang_alike_none_is_to_blame() -> None:
    async def script(rank: Rank) -> None:
        if rank.rank:
            await no_thread_sets(rank)

    [finding], _ = found(script, world_of(3, hosts=["h"]))
    assert finding.message.startswith("thread u1 of ranks 1, 2 waits for flag ready")
    assert finding.culprit is None


def test_no_hang_of_random_worlds_is_undecided() -> None:
    hangs = 0
    for seed in range(60):
        case = threaded_case(seed)
        run = SimBackend(memory=case.memory).run_program(case.world, case.program, case.args)
        classes = [finding.klass for finding in judge(case.world, run)]
        assert "HANG:UNDECIDED" not in classes, case.name
        hangs += any(klass.startswith("HANG:") for klass in classes)
    assert hangs > 5, "too few worlds hang"


async def joins_one_that_raised(rank: Rank) -> None:
    """Thread u1 raises, and main gets the exception at the join. Thread u2 still waits for a flag."""

    async def raises_at_once(rank: Rank) -> None:
        raise ValueError("bad")

    async def waits_for_it(rank: Rank) -> None:
        await rank.flag("ready").wait("ready.wait")

    first, second = rank.start("u1", raises_at_once), rank.start("u2", waits_for_it)
    await first.join("u1.join")
    await second.join("u2.join")


async def sets_another_flag(rank: Rank) -> None:
    async def sets_and_ends(rank: Rank) -> None:
        rank.flag("steady").set("steady.set")

    first = rank.start("u1", sets_and_ends)
    await first.join("u1.join")
    await rank.flag("ready").wait("ready.wait")


@pytest.mark.parametrize(("script", "site"), [(joins_one_that_raised, "ValueError"), (sets_another_flag, "steady.set")])
def test_the_thread_that_ended_is_to_blame_for_what_it_raised_or_set_instead(script: Script, site: str) -> None:
    """The finding blames the thread that ended, by its exception or by the other flag that it set. It does not blame
    the thread that waits.
    """
    [finding], _ = found(script)
    assert finding.klass == "HANG:FLAG:THREAD_ENDED"
    assert finding.culprit is not None
    assert (finding.culprit.thread, finding.culprit.site) == ("u1", site)
    assert finding.culprit.where.startswith("tests/checks/test_thread_hangs.py:")
