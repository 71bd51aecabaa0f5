"""A rank that did nothing wrong is not blamed for a missing or different call. Each program has a twin in which this
rank is guilty.

kinds      a step is light or heavy by agreement, and a leader tells the others
groups     two small groups meet, then all ranks
blocked    rank 2 tells the others, then all meet
turns      the leader of each step, agreed before, tells the others
roots      the root of each step is agreed before
ring       each rank sends to the next one
"""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from tests.checks.blame.innocent import ONE, agree, blamed, first, found, grouped, words


@pytest.mark.parametrize("guilty", [False, True])
def test_a_call_that_no_rank_made_in_a_step_is_not_left_out(guilty: bool) -> None:
    """Step 1 is heavy, and rank 3 tells rank 2 in place of rank 1. In the twin, rank 1 leaves out light."""

    async def kinds(rank: Rank) -> None:
        group = rank.host("h")
        for rank.step in range(2):
            value = await agree(rank, 3 if rank.step and not guilty else 2)
            if value % 2:
                await group.broadcast(ONE, 0, site="heavy")
            elif not (guilty and rank.step and rank.rank == 1):
                await group.gather(ONE, 0, site="light")
            if rank.rank == value:
                for to in {0, 1, 2, 3} - {value}:
                    rank.send(2 if (value, to) == (3, 1) else to, "box", 1, "tell")
            else:
                await rank.mailbox("box").get("hear")
            await group.all_reduce(ONE, site="all")

    finding = first(4, kinds)
    assert "left out light" not in words(finding) or guilty
    assert blamed(finding) == ((1, 1) if guilty else (3, 1))


@pytest.mark.parametrize("guilty", [4, 0])
def test_a_rank_outside_the_circle_of_groups_is_not_blamed(guilty: int) -> None:
    """A rank leaves out the call of its group. The others of the group wait there, and all others in the next call."""

    async def groups(rank: Rank) -> None:
        await rank.host("h").barrier(site="begin")
        if rank.rank != guilty:
            await rank.host("sub").all_reduce(ONE, site="sub")
        await rank.host("h").gather(ONE, 0, site="all")

    every = found(grouped(5, (0, 1), (2, 3, 4)), groups)
    circle = next(one for one in every if one.klass == "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
    assert blamed(circle) == (guilty, 0)
    assert "the others on h" not in words(circle)
    assert {one.culprit.rank for one in every if one.culprit is not None} == {guilty}


@pytest.mark.parametrize("guilty", [False, True])
def test_a_rank_that_is_blocked_before_a_call_did_not_leave_it_out(guilty: bool) -> None:
    """Rank 2 tells rank 1 in place of rank 0, which waits. In the twin rank 0 leaves out the call behind its wait."""

    async def blocked(rank: Rank) -> None:
        for rank.step in range(2):
            await rank.host("h").barrier(site="begin")
            await rank.host("sub").barrier(site="sub")
            if rank.rank == 2:
                for to in (1, 1 if rank.step and not guilty else 0):
                    rank.send(to, "box", 1, "tell")
            else:
                await rank.mailbox("box").get("hear")
            if not (guilty and rank.step and rank.rank == 0):
                await rank.host("h").barrier(site="all")
            if rank.rank == 0:
                rank.probe("works")

    every = found(grouped(3, (0, 1), (2,)), blocked)
    assert blamed(every[0]) == ((0, 1) if guilty else (2, 1))
    assert guilty or all(one.culprit is None or one.culprit.rank != 0 for one in every)
    assert guilty or any("rank 0 did not reach all" in words(one) for one in every)


@pytest.mark.parametrize("guilty", [False, True])
def test_a_step_that_all_ranks_finished_is_no_place_of_blame(guilty: bool) -> None:
    """The leaders are 2, 0, 2, 0, and rank 0 forgets to lead step 3. In the twin rank 2 always leads, and leaves out
    step 1, after which the others take the messages of later steps.
    """

    async def turns(rank: Rank) -> None:
        for rank.step in range(4):
            lead = 2 if guilty else await agree(rank, [2, 0, 2, 0][rank.step])
            if rank.rank == lead and rank.step != (1 if guilty else 3):
                for to in {0, 1, 2} - {lead}:
                    rank.send(to, "box", rank.step, "tell")
            elif rank.rank != lead or not guilty:
                await rank.mailbox("box").get("hear")
            if guilty and rank.rank == lead:
                rank.probe("leads")

    finding = first(3, turns)
    assert blamed(finding) == ((2, 1) if guilty else None)
    assert guilty or "2 of 2 other steps" not in words(finding)


@pytest.mark.parametrize("agreed", [True, False])
def test_an_agreed_root_is_no_habit(agreed: bool) -> None:
    """The roots are 0, 1, 1, and rank 1 uses 1 in step 0. In the twin the results do not change with the root."""

    async def roots(rank: Rank) -> None:
        for rank.step, root in enumerate((0, 1, 1)):
            await agree(rank, root if agreed else 0)
            odd = rank.step == 0 and rank.rank == (1 if agreed else 0)
            await rank.host("h").broadcast(
                ONE, 1 - root if odd and agreed else root if agreed or odd else 1, site="share"
            )

    finding = first(2, roots)
    assert finding.klass == "MISMATCH:COLLECTIVE:ROOT"
    assert blamed(finding) == (None if agreed else (0, 0))


@pytest.mark.parametrize("guilty", [0, 1])
@pytest.mark.parametrize("steps", [1, 2])
def test_an_unreceived_send_is_evidence_against_the_receiver(steps: int, guilty: int) -> None:
    """Rank 0 receives from the wrong rank in the last step. In the twin rank 1 forgets its send to rank 2."""

    async def ring(rank: Rank) -> None:
        group, own = rank.host("h"), rank.rank
        for rank.step in range(steps):
            await group.barrier(site="begin")
            odd = rank.step == steps - 1 and own == guilty
            sent = None if odd and guilty else group.send(ONE, (own + 1) % 3, site="give")
            await group.recv(1, "int32", (own + 1 if odd and not guilty else own - 1) % 3, site="take")
            if sent is not None:
                await sent

    finding = first(3, ring)
    assert finding.klass == "HANG:P2P:UNMATCHED_RECV"
    assert blamed(finding) == (None if steps == 1 and not guilty else (guilty, steps - 1))
    assert guilty or "rank 2 sent to rank 0 (give, " in words(finding)
