"""Tests `HostWork.query` of a host collective or transfer. Its answer False is a choice of the schedule. After the
program has awaited the work, got True, or waited for something else until its time-out, the answer is True.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Aborted, Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault
from dpsim.diagnose.words import text
from dpsim.sim.backend import SimBackend
from tests.programs import explored, judged, world_of
from tests.sim.test_any_source import outcomes

WORLD = world_of(2, hosts=["h"])
YES, NO = True, False


async def asks(rank: Rank) -> tuple[bool, ...] | None:
    """Rank 0 queries twice, awaits, and queries again."""
    work = rank.host("h").barrier()
    if rank.rank:
        await work
        return None
    answers = [await work.query("look") for _ in range(2)]
    await work
    return *answers, await work.query("look")


def test_a_query_may_change_from_no_to_yes_and_not_back() -> None:
    assert outcomes(asks, 2) == {(NO, NO, YES), (NO, YES, YES), (YES, YES, YES)}


async def joins_later(rank: Rank) -> bool | None:
    """Rank 1 calls the barrier after rank 0 has queried."""
    if rank.rank:
        await rank.mailbox("go").get("go")
    work = rank.host("h").barrier()
    answer = None
    if rank.rank == 0:
        answer = await work.query("look")
        rank.send(1, "go", 1, "tell")
    await work
    return answer


def test_a_query_returns_yes_only_if_all_awaited_ranks_joined() -> None:
    assert outcomes(joins_later, 2) == {NO}


async def sends(rank: Rank) -> bool | None:
    """A send may end before its receive, or only with it. Rank 1 receives after rank 0 has queried."""
    group = rank.host("h")
    if rank.rank:
        await rank.mailbox("go").get("go")
        await group.recv(1, "int32", 0)
        return None
    work = group.send(np.zeros(1, np.int32), 1)
    answer = await work.query("look")
    rank.send(1, "go", 1, "tell")
    await work
    return answer


def test_a_send_may_be_over_before_it_is_received() -> None:
    assert outcomes(sends, 2) == {YES, NO}


async def both_poll(rank: Rank) -> None:
    """Each rank receives after its send has ended. On hardware a large send may end only with its receive, so this may
    loop without end.
    """
    work = rank.host("h").send(np.zeros(1, np.int32), 1 - rank.rank)
    while not await work.query("look"):
        pass
    await work
    await rank.host("h").recv(1, "int32", 1 - rank.rank)


def test_a_poll_for_a_send_that_its_receive_waits_for_is_a_livelock() -> None:
    assert not judged(WORLD, both_poll)
    found = explored(WORLD, both_poll)
    assert [one.klass for one in found.findings] == ["LIVELOCK:QUERY"]
    assert "ask whether h.send[0] is over" in text(found.findings[0].message)


async def counts_on_yes(rank: Rank) -> None:
    work = rank.host("h").barrier()
    assert await work.query("look"), "the other rank has joined the barrier"
    await work


def test_a_program_that_counts_on_yes_is_violated() -> None:
    assert [one.klass for one in explored(WORLD, counts_on_yes).findings] == ["CRASH:ASSERTIONERROR"]


async def queries_around_a_time_out(rank: Rank) -> tuple[bool, bool] | None:
    """A time-out passes only when nothing else can happen. So a query after the time-out returns True, where one before
    it may return False.
    """
    work = rank.host("h").barrier()
    answers = None
    if rank.rank == 0:
        before = await work.query("look")
        assert await rank.mailbox("box").get("get", timeout_ns=1_000_000) is None
        answers = before, await work.query("look")
    await work
    return answers


def test_a_query_after_a_time_out_returns_yes() -> None:
    assert outcomes(queries_around_a_time_out, 2) == {(NO, YES), (YES, YES)}


async def forgets_the_query(rank: Rank) -> None:
    work = rank.host("h").barrier()
    if rank.rank == 0:
        work.query("look")
    await work


async def forgets_the_work(rank: Rank) -> None:
    work = rank.host("h").barrier()
    if rank.rank:
        await work
    else:
        await work.query("look")


@pytest.mark.parametrize(("script", "site"), [(forgets_the_query, "look"), (forgets_the_work, "h.barrier")])
def test_a_call_and_its_query_both_have_to_be_awaited(script: Any, site: str) -> None:
    [finding] = judged(WORLD, script)
    assert (finding.klass, finding.culprit and finding.culprit.site) == ("LEFTOVER:NEVER_AWAITED", site)


async def naps(rank: Rank) -> None:
    work = rank.host("h").barrier()
    while not await work.query("look"):
        await rank.sleep(1_000_000, "nap")
    await work


def test_a_polling_loop_with_naps_ends() -> None:
    assert not judged(WORLD, naps)


def test_a_call_that_a_fault_left_out_is_over() -> None:
    world = world_of(2, hosts=["h"], faults=(Fault("skip", 0, At("h.barrier", 0)),))
    run = SimBackend().run_program(world, _Asks(), None)
    assert [raw[-1] for raw in run.journals[0] if raw[:1] == ("learned",)][:3] == [True, True, 0]


class _Asks(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        await asks(rank)


class GivesUp(Program[Any]):
    aborts = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 0:
            works = [rank.host("h").barrier() for _ in range(2)]
            assert not await works[0].query("look")
            rank.host("h").abort()
            for work in works:
                with pytest.raises(Aborted):
                    await work.query("look")


def test_a_query_on_an_aborted_communicator_raises() -> None:
    assert SimBackend().run_program(WORLD, GivesUp(), None).finished
