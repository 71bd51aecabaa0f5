"""Small programs of wakes, each with variants in which one wake gets lost: ten lines a program, one mistake a variant.

rounds      rank 0 posts to each follower in each step; each follower posts back
ahead       as rounds, but rank 0 waits for no answer
keys        rank 0 sets a key in each step, and the others wait for it
sleepers    rank 0 posts to sleeping ranks; then all meet in a barrier

A variant is the name of a mistake. `LOST` has a world for each, and which rank and step are wrong.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.world import World
from tests.programs import Script, world_of

STEPS = 4


class Lost(NamedTuple):
    """A world in which a wake gets lost. `guilty`: rank and step of the mistake. `sides`: the ranks that a report
    has to name if it blames none.
    """

    world: World
    script: Script
    guilty: tuple[int, int]
    sides: tuple[int, ...]


def rounds(mistake: str, ranks: int = 4, step: int = 1) -> Script:
    """`skips`: no post to rank 2; `forgets`: rank 2 does not answer; `other box`: to a mailbox that no rank reads."""

    async def script(rank: Rank) -> None:
        box = rank.mailbox("go")
        for rank.step in range(STEPS):
            here = rank.step == step
            if rank.rank == 0:
                for to in range(1, ranks):
                    if not (here and mistake == "skips" and to == ranks - 1):
                        name = "og" if here and mistake == "other box" and to == ranks - 1 else "go"
                        rank.send(to, name, ("go", rank.step), "go.post")
                for _ in range(1, ranks):
                    await rank.mailbox("done").get("done.get")
            else:
                await box.get("go.get")
                if here and mistake == "drains" and rank.rank == ranks - 1:
                    await box.get("go.drain")
                if not (here and mistake == "forgets" and rank.rank == ranks - 1):
                    rank.send(0, "done", rank.rank, "done.post")

    return script


def ahead(mistake: str, ranks: int = 2, step: int = 1) -> Script:
    """Rank 0 posts once in each step and waits for none; the others take one message in each step."""

    async def script(rank: Rank) -> None:
        for rank.step in range(STEPS):
            here = rank.step == step
            if rank.rank == 0:
                rank.probe("works")
                for to in range(1, ranks):
                    if not (here and mistake == "skips" and to == ranks - 1):
                        rank.send(to, "go", ("go", rank.step), "go.post")
                await rank.turn("turn")
            else:
                await rank.mailbox("go").get("go.get")
                if here and mistake == "takes twice" and rank.rank == ranks - 1:
                    await rank.mailbox("go").get("go.get")

    return script


def keys(mistake: str, step: int = 1) -> Script:
    """`skips`: rank 0 sets no key in one step; `asks`: rank 1 asks for a key of another step."""

    async def script(rank: Rank) -> None:
        store = await (rank.open_store(5, "open") if rank.rank == 0 else rank.join_store(0, 5, "join"))
        assert store is not None
        for rank.step in range(STEPS):
            here = rank.step == step
            if rank.rank == 0:
                if not (here and mistake == "skips"):
                    store.set(f"step/{rank.step}", rank.step, "key.set")
                await rank.turn("turn")
            else:
                await store.get(f"step/{rank.step + 100 * (here and mistake == 'asks')}", "key.get")

    return script


def sleepers(mistake: str, ranks: int = 3) -> Script:
    """`skips`: rank 0 wakes the last rank not; `drops`: the last rank takes its wake, and sleeps again."""

    async def script(rank: Rank) -> None:
        for rank.step in range(STEPS):
            here = rank.step == 2
            last = rank.rank == ranks - 1
            if rank.rank == 0:
                for to in range(1, ranks):
                    if not (here and mistake == "skips" and to == ranks - 1):
                        rank.send(to, "wake", ("wake", rank.step), "wake.post")
            else:
                await rank.mailbox("wake").get("wake.get", idle=True)
                if here and mistake == "drops" and last:
                    await rank.mailbox("wake").get("wake.get", idle=True)
            await rank.host("h").barrier(site="meet")

    return script


LOST = {
    "rounds, skips": Lost(world_of(4), rounds("skips"), (0, 1), (0, 3)),
    "rounds of two, skips": Lost(world_of(2), rounds("skips", 2), (0, 1), (0, 1)),
    "rounds, skips at first": Lost(world_of(4), rounds("skips", step=0), (0, 0), (0, 3)),
    "rounds, forgets": Lost(world_of(4), rounds("forgets"), (3, 1), (0, 3)),
    "rounds, forgets at first": Lost(world_of(4), rounds("forgets", step=0), (3, 0), (0, 3)),
    "rounds, other box": Lost(world_of(4), rounds("other box"), (0, 1), (0, 3)),
    "rounds, drains": Lost(world_of(4), rounds("drains"), (3, 1), (0, 3)),
    "ahead, skips": Lost(world_of(2), ahead("skips"), (0, 1), (0, 1)),
    "ahead of three, skips": Lost(world_of(4), ahead("skips", 4), (0, 1), (0, 3)),
    "ahead, skips at first": Lost(world_of(2), ahead("skips", step=0), (0, 0), (0, 1)),
    "ahead, skips at last": Lost(world_of(2), ahead("skips", step=STEPS - 1), (0, 3), (0, 1)),
    "ahead, takes twice": Lost(world_of(2), ahead("takes twice"), (1, 1), (0, 1)),
    "ahead of three, takes twice": Lost(world_of(4), ahead("takes twice", 4), (3, 1), (0, 3)),
    "keys, skips": Lost(world_of(2), keys("skips"), (0, 1), (0, 1)),
    "keys, asks": Lost(world_of(2), keys("asks"), (1, 1), (0, 1)),
    "sleepers, skips": Lost(world_of(3, ["h"]), sleepers("skips"), (0, 2), (0, 2)),
    "sleepers, drops": Lost(world_of(3, ["h"]), sleepers("drops"), (2, 2), (0, 2)),
    "two sleepers, skips": Lost(world_of(2, ["h"]), sleepers("skips", 2), (0, 2), (0, 1)),
    "two sleepers, drops": Lost(world_of(2, ["h"]), sleepers("drops", 2), (1, 2), (0, 1)),
}
