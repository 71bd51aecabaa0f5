"""A rank that did nothing wrong is not blamed for a hang. Each small program has a twin in which this rank is guilty.

kinds      a step is light or heavy by agreement, and a leader tells the others
tells      rank 1 tells the others once
keys       a setter, which may change, sets one key in each step
groups     two small groups meet, then all ranks
blocked    rank 2 tells the others, then all meet
turns      the leader of each step, agreed before, tells the others
roots      the root of each step is agreed before
ring       each rank sends to the next one
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.world import CommunicatorSpec, World
from tests.programs import Script, run, world_of

ONE = np.ones(1, np.int32)


def found(world: World, script: Script) -> list[Finding]:
    return judge(world, run(world, script))


def first(ranks: int, script: Script) -> Finding:
    return found(world_of(ranks, ["h"]), script)[0]


def grouped(ranks: int, *groups: tuple[int, ...]) -> World:
    """Returns a world with a group of all ranks, and several groups of the kind `sub`."""
    world = world_of(ranks, ["h"])
    subs = tuple(CommunicatorSpec("sub", f"sub.{at}", "host", some) for at, some in enumerate(groups))
    return replace(world, communicators=(*world.communicators, *subs))


def blamed(finding: Finding) -> tuple[int, int] | None:
    culprit = finding.culprit
    return None if culprit is None else (culprit.rank, culprit.step)


def words(finding: Finding) -> str:
    return " ".join([finding.message, *finding.details, *finding.ground, finding.why])


async def agree(rank: Rank, value: int) -> int:
    return int((await rank.host("h").all_reduce(np.array([value], np.int32), op="max", site="agree"))[0])


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


@pytest.mark.parametrize("guilty", [False, True])
def test_a_wait_for_a_message_that_no_rank_ever_sent(guilty: bool) -> None:
    """Rank 1 forgets to tell the others. In the twin it tells them once, and rank 0 waits twice."""

    async def tells(rank: Rank) -> None:
        if rank.rank != 1:
            for _ in range(1 + (guilty and rank.rank == 0)):
                await rank.mailbox("box").get("hear")
        elif guilty:
            for to in (0, 2, 3):
                rank.send(to, "box", to, "tell")
        await rank.host("h").barrier(site="end")

    finding = next(one for one in found(world_of(4, ["h"]), tells) if one.klass == "HANG:MAILBOX:NO_MESSAGE")
    assert blamed(finding) == ((0, 0) if guilty else None)
    assert guilty or "rank 1 may owe it" in words(finding)


@pytest.mark.parametrize("setters", [(1, 1), (2, 1, 1)])
def test_a_key_is_owed_by_those_that_set_such_keys(setters: tuple[int, ...]) -> None:
    """Rank 1 forgets the key of the last step. Rank 0 listens, and waits for the key like the others."""

    async def keys(rank: Rank) -> None:
        store = await (rank.open_store(5, "open") if rank.rank == 0 else rank.join_store(0, 5, "join"))
        assert store is not None
        for rank.step, setter in enumerate(setters):
            await rank.host("h").barrier(site="begin")
            if rank.rank != setter:
                await store.get(f"k{rank.step}", "get")
            elif rank.step < len(setters) - 1:
                store.set(f"k{rank.step}", 1, "set")

    for finding in found(world_of(len(setters), ["h"]), keys):
        assert finding.culprit is None
        assert "; rank 1 may owe it" in finding.message


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
    assert guilty or "no rank sent one in step 3; the last one came from rank 2" in finding.message


@pytest.mark.parametrize("lead", [1, 3])
def test_the_leader_of_the_step_owes_the_message(lead: int) -> None:
    """Rank 1 leads step 0. The leader of step 1 forgets rank 0."""

    async def turns(rank: Rank) -> None:
        for rank.step, own in enumerate((1, lead)):
            await agree(rank, own)
            if rank.rank == own:
                for to in {0, 1, 2, 3} - {own} - ({0} if rank.step else set()):
                    rank.send(to, "box", to, "tell")
            else:
                await rank.mailbox("box").get("hear")
            await rank.host("h").all_gather(ONE, site="all")

    text = " ".join(words(one) for one in found(world_of(4, ["h"]), turns))
    assert f"rank {lead} may owe it" in text
    assert f"directly or not, for rank {lead}" in text


@pytest.mark.parametrize(("mistake", "culprit"), [
    ("wrong rank", (3, 0)), ("other message", None), ("takes both", None), ("waits twice", (0, 0)),
])  # fmt: skip
def test_a_message_that_went_to_the_wrong_rank(mistake: str, culprit: tuple[int, int] | None) -> None:
    """Rank 3 sends the message of rank 0 to rank 2. In the twins it is another message, rank 2 takes both, or rank 0
    waits twice.
    """

    async def tells(rank: Rank) -> None:
        if rank.rank == 3:
            for to in (1, 2):
                rank.send(to, "box", 1, "tell")
            rank.send(0 if mistake == "waits twice" else 2, "box", 2 if mistake == "other message" else 1, "tell")
        else:
            twice = rank.rank == {"takes both": 2, "waits twice": 0}.get(mistake)
            for _ in range(1 + twice):
                await rank.mailbox("box").get("hear")
        await rank.host("h").barrier(site="all")

    every = found(world_of(4, ["h"]), tells)
    if mistake == "waits twice":
        every = [one for one in every if one.klass == "HANG:MAILBOX:NO_MESSAGE"]
    assert blamed(every[0]) == culprit
    assert culprit != (3, 0) or "rank 3 sent a message in box to rank 2 twice in step 0" in every[0].message


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


@pytest.mark.parametrize(("ranks", "early", "late", "culprit"), [
    (2, "key/0", "keyx/1", 1), (2, "keyx/0", "keyx/1", None), (3, "keyx/0", "keyx/1", 0),
])  # fmt: skip
def test_a_key_that_no_rank_gets_is_evidence_against_the_one_that_waits(
    ranks: int, early: str, late: str, culprit: int | None
) -> None:
    """Rank 0 sets key/0 and key/1. Rank 1 may have got such a key before, and two ranks that wait are a majority."""

    async def keys(rank: Rank) -> None:
        store = await (rank.open_store(5, "open") if rank.rank == 0 else rank.join_store(0, 5, "join"))
        assert store is not None
        for rank.step, key in enumerate((early, late)):
            if rank.rank == 0:
                store.set(f"key/{rank.step}", 1, "set")
            else:
                await store.get(key, "get")

    finding = first(ranks, keys)
    assert finding.klass == "HANG:STORE:NO_VALUE"
    assert (finding.culprit and finding.culprit.rank) == culprit
    assert "rank 0 set the key key/" in words(finding)


@pytest.mark.parametrize("guilty", [2, 0])
def test_a_rank_that_gets_another_key_than_its_peers_misspelt_it(guilty: int) -> None:
    """Rank 0 sets a key for the others. Rank 2 misspells it, and rank 1 does not. In the twin rank 0 misspells it."""

    async def keys(rank: Rank) -> None:
        store = await (rank.open_store(5, "open") if rank.rank == 0 else rank.join_store(0, 5, "join"))
        assert store is not None
        if rank.rank == 0:
            store.set("adress" if guilty == 0 else "address", 1, "set")
        else:
            await store.get("adress" if guilty == rank.rank else "address", "get")
        await rank.host("h").barrier(site="all")

    every = found(world_of(3, ["h"]), keys)
    assert (every[0].klass, blamed(every[0])) == ("HANG:STORE:NO_VALUE", (guilty, 0))
    assert guilty == 0 or every[0].ground == ("rank 1 got the key address at get in step 0",)
