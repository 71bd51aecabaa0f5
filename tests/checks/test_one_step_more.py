"""A rank that goes on after the others ended: one step too many, or the others ended too early."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from tests.checks.blame.innocent import ONE
from tests.judged import judge
from tests.programs import run, world_of

STEPS = 3


@pytest.mark.parametrize("op", ["collective", "transfer"])
@pytest.mark.parametrize(("ranks", "more", "culprit"), [
    (2, {0}, None), (3, {0}, None), (3, {0, 1}, 2), (4, {0, 1}, None),
])  # fmt: skip
def test_most_ranks_have_to_go_on_to_blame_those_that_ended(
    op: str, ranks: int, more: set[int], culprit: int | None
) -> None:
    async def steps(rank: Rank) -> None:
        h = rank.host("h")
        last = STEPS + (rank.rank in more)
        for rank.step in range(last):
            if op == "collective":
                await h.all_reduce(ONE, site="sum")
            else:
                sends = h.send(ONE, (rank.rank + 1) % ranks, site="push")
                await h.recv(1, "int32", (rank.rank - 1) % ranks, site="pull")
                await sends

    world = world_of(ranks, ["h"])
    first = next(one for one in judge(world, run(world, steps)) if one.klass.startswith("HANG"))
    assert (first.culprit and (first.culprit.rank, first.culprit.step)) == (
        None if culprit is None else (culprit, STEPS)
    )
    assert culprit is not None or "began step 3" in first.why


@pytest.mark.parametrize("wakes", [STEPS, STEPS + 1])
def test_an_unread_message_asks_a_rank_to_go_on(wakes: int) -> None:
    async def steps(rank: Rank) -> None:
        last = STEPS + (rank.rank == 0)
        for rank.step in range(last):
            if rank.rank == 0 and rank.step < wakes:
                rank.send(1, "wake", rank.step, "wake")
            elif rank.rank == 1:
                await rank.mailbox("wake").get("hear")
            await rank.host("h").barrier(site="meet")

    world = world_of(2, ["h"])
    first = judge(world, run(world, steps))[0]
    assert (first.culprit and first.culprit.rank) == (1 if wakes > STEPS else None)
