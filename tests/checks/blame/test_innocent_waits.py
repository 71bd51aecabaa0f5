"""A rank that waits for a message or key is not blamed for the mistake of another rank. Each program has a twin.

tells      one rank tells the others once
keys       a setter, which may change, sets one key in each step
turns      the leader of each step, agreed before, tells the others
notes      rank 0 wakes the others, and rank 1 sends them a note
"""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from tests.checks.blame.innocent import blamed, first, found, grouped, words
from tests.programs import world_of


@pytest.mark.parametrize("guilty", [False, True])
def test_a_wait_for_a_message_that_no_rank_ever_sent(guilty: bool) -> None:
    """Rank 1 forgets to tell the others. In the twin it tells them once in each step, and rank 0 waits twice in one."""

    async def tells(rank: Rank) -> None:
        for rank.step in range(2):
            if rank.rank != 1:
                for _ in range(1 + (guilty and rank.rank == 0 and rank.step == 1)):
                    await rank.mailbox("box").get("hear")
            elif guilty:
                for to in (0, 2, 3):
                    rank.send(to, "box", to, "tell")
            await rank.host("h").barrier(site="end")

    finding = next(one for one in found(world_of(4, ["h"]), tells) if one.klass == "HANG:MAILBOX:NO_MESSAGE")
    assert blamed(finding) == ((0, 1) if guilty else None)
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


@pytest.mark.parametrize(("mistake", "culprit"), [
    ("wrong rank", (3, 0)), ("other message", None), ("takes both", None), ("waits twice", None),
])  # fmt: skip
def test_a_message_that_went_to_the_wrong_rank(mistake: str, culprit: tuple[int, int] | None) -> None:
    """Rank 3 sends the message of rank 0 to rank 2. In the twins it is another message, rank 2 takes both, or rank 0
    waits twice: in its first step, it may need two.
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
    assert blamed(every[0]) == culprit
    assert culprit != (3, 0) or "rank 3 sent a message in box to rank 2 twice in step 0" in every[0].message


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


@pytest.mark.parametrize("guilty", [0, 3])
def test_a_message_of_another_mailbox_does_not_wake_a_rank(guilty: int) -> None:
    """Rank 0 forgets to wake rank 3, whose last op took a note of rank 1. In the twin rank 3 sleeps after its wake."""

    async def notes(rank: Rank) -> None:
        for step in range(3):
            if rank.rank == 0:
                rank.step = step
                for to in (1, 2) if step == 2 and guilty == 0 else (1, 2, 3):
                    rank.send(to, "wake", step, "wake")
                continue
            for _ in range(1 + (step == 2 and rank.rank == guilty)):
                await rank.mailbox("wake").get("asleep", idle=True)
            rank.step = step
            await rank.host("sub").barrier(site="meet")
            if rank.rank > 1:
                await rank.mailbox("note").get("hear")
            else:
                for to in (2, 3):
                    rank.send(to, "note", step, "note")

    finding = found(grouped(4, (1, 2, 3)), notes)[0]
    assert blamed(finding) == (guilty, 2)
