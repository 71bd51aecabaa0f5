"""Tests `recv_any`, the receive from any source. With time it takes the message that arrives first. Without time it may
take any message that can arrive. It takes each message once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Aborted, Rank, Received
from dpsim.contract.program import Program
from dpsim.contract.world import At, Delay, Kill
from dpsim.diagnose.words import text
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.backend import SimBackend
from tests.programs import Scripted, explored, judged, world_of
from tests.sim.programs import usual_world

WORLD = world_of(3, hosts=["h"])


async def receive(rank: Rank) -> Received:
    return await rank.host("h").recv_any(1, "int32")


async def send(rank: Rank, to: int = 0) -> None:
    await rank.host("h").send(np.array([10 * rank.rank], np.int32), to)


async def sources(rank: Rank) -> tuple[int, ...] | None:
    """Rank 0 receives twice from any source; ranks 1 and 2 each send once."""
    if rank.rank:
        await send(rank)
        return None
    received = [await receive(rank) for _ in range(2)]
    assert all(int(one.array[0]) == 10 * one.source for one in received)
    return tuple(one.source for one in received)


def outcomes(script: Any, size: int = 3) -> set[Any]:
    """Returns all values that rank 0 returns, over all schedules."""
    decided = set()

    async def noted(rank: Rank) -> Any:
        value = await script(rank)
        if rank.rank == 0:
            decided.add(value)
        return value

    assert explored(usual_world(size), noted).verdict == "proven"
    return decided


def test_each_message_may_be_first() -> None:
    assert outcomes(sources) == {(1, 2), (2, 1)}


def test_a_timed_run_receives_the_message_that_arrives_first() -> None:
    assert not judged(WORLD, sources_of(1, 2))
    late = world_of(3, hosts=["h"], delays=(Delay(1, At("h.send", 0), 1_000_000),))
    assert not judged(late, sources_of(2, 1))
    assert judged(late, sources_of(1, 2))


def sources_of(*wanted: int) -> Any:
    async def script(rank: Rank) -> None:
        came = await sources(rank)
        assert came in (None, wanted), came

    return script


def test_a_program_that_takes_the_first_to_be_rank_1_is_violated() -> None:
    assert not judged(WORLD, sources_of(1, 2))
    assert [one.klass for one in explored(WORLD, sources_of(1, 2)).findings] == ["CRASH:ASSERTIONERROR"]


async def answered(rank: Rank) -> int | None:
    """Rank 2 sends only after rank 0 has received from rank 1."""
    if rank.rank == 1:
        await send(rank)
    elif rank.rank == 2:
        await rank.mailbox("go").get("go")
        await send(rank)
    else:
        first = await receive(rank)
        rank.send(2, "go", 1, "tell")
        await receive(rank)
        return first.source
    return None


def test_a_message_that_is_sent_because_of_another_is_never_before_it() -> None:
    assert outcomes(answered) == {1}


async def later(rank: Rank) -> int | None:
    """Rank 2 sends after rank 1 has sent, so rank 0 may take either message first."""
    if rank.rank == 1:
        work = rank.host("h").send(np.array([10], np.int32), 0)
        rank.send(2, "go", 1, "tell")
        await work
    elif rank.rank == 2:
        await rank.mailbox("go").get("go")
        await send(rank)
    else:
        first = await receive(rank)
        await receive(rank)
        return first.source
    return None


def test_a_message_that_is_sent_later_may_be_first() -> None:
    assert outcomes(later) == {1, 2}


async def mixed(rank: Rank) -> tuple[int, ...] | None:
    """Rank 0 receives from rank 1 by name, then from any source, and then by name again."""
    group = rank.host("h")
    if rank.rank == 1:
        for number in range(3):
            await group.send(np.array([number], np.int32), 0)
    if rank.rank:
        return None
    named = group.recv(1, "int32", 1)
    received = await receive(rank)
    return int((await named)[0]), int(received.array[0]), int((await group.recv(1, "int32", 1))[0])


def test_named_receives_that_were_called_before_are_first() -> None:
    assert outcomes(mixed, 2) == {(0, 1, 2)}


def test_a_named_receive_beside_one_from_any_source_is_refused() -> None:
    async def both(rank: Rank) -> None:
        if rank.rank:
            return await send(rank)
        work = rank.host("h").recv_any(1, "int32")
        with pytest.raises(
            RuntimeError, match="has not awaited its recv_any on h; await it before a receive from rank 1"
        ):
            rank.host("h").recv(1, "int32", 1)
        await work
        await receive(rank)
        return None

    assert not judged(WORLD, both)


def test_a_communicator_of_one_is_refused() -> None:
    [finding] = judged(world_of(1, hosts=["h"]), receive)
    assert "rank 0 is the only member of h" in finding.message


async def three(rank: Rank) -> None:
    if rank.rank:
        await send(rank)
    else:
        for _ in range(3):
            await receive(rank)


async def circle(rank: Rank) -> None:
    await receive(rank)
    await send(rank, 0 if rank.rank else 1)


@pytest.mark.parametrize(
    ("script", "words"), [(three, "for rank 1, which never sends"), (circle, "wait for each other")]
)
def test_a_receive_that_nothing_matches_is_a_hang(script: Any, words: str) -> None:
    for findings in judged(WORLD, script), explored(WORLD, script).findings:
        assert [one.klass for one in findings] == ["HANG:P2P:UNMATCHED_RECV"]
        assert words in text(findings[0].message)
        assert "recv_any at h.recv_any, tests/sim/test_any_source.py" in text(findings[0].details[0])


async def unlike(rank: Rank) -> None:
    if rank.rank:
        await rank.host("h").send(np.zeros(rank.rank, np.int32), 0)
    else:
        await receive(rank)
        await receive(rank)


async def one_of_two(rank: Rank) -> None:
    if rank.rank:
        await rank.host("h").send(np.zeros(0, np.int32), 0)
    else:
        await rank.host("h").recv_any(0, "int32")


async def forgets(rank: Rank) -> None:
    if rank.rank == 1:
        await send(rank)
    if rank.rank == 0:
        rank.host("h").recv_any(1, "int32")


@pytest.mark.parametrize(
    ("script", "klass"),
    [(unlike, "MISMATCH:TRANSFER:COUNT"), (one_of_two, "LEFTOVER:SEND"), (forgets, "LEFTOVER:NEVER_AWAITED")],
)
def test_a_receive_from_any_source_is_judged_like_any_transfer(script: Any, klass: str) -> None:
    assert judged(WORLD, script)[0].klass == klass


def test_a_sender_may_die_before_it_sends() -> None:
    world = world_of(3, hosts=["h"], kills=(Kill(1),))
    assert {one.klass for one in explored(world, three).findings} == {"HANG:P2P:UNMATCHED_RECV"}


class GivesUp(Program[Any]):
    """Rank 0 waits for a message that no rank sends, and its other thread aborts."""

    aborts = True
    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            return

        async def breaks(rank: Rank) -> None:
            rank.host("h").abort()

        thread = rank.start("other", breaks)
        with pytest.raises(Aborted):
            await receive(rank)
        await thread.join("join")


def test_a_receive_from_any_source_can_be_aborted() -> None:
    assert SimBackend().run_program(world_of(2, hosts=["h"]), GivesUp(), None).finished


def test_the_order_of_a_run_with_time_repeats_it_without() -> None:
    program = Scripted(sources)
    timed = SimBackend(keep_order=True).run_program(usual_world(3), program, None)
    noted = ScheduleReplay(timed.order, strict=False)  # the order of a timed run contains no draws of sends
    assert noted.begin()
    again = SimBackend(choose=noted).run_program(usual_world(3), program, None)
    assert timed.order == ["rank 0 takes from 1 in h #0", "rank 0 takes from 2 in h #1"]
    assert again.journals == timed.journals
