"""coordinator: a service starts some of the ranks in each step, and waits for their reports. The others sleep.

    coordinator:  order.post to each active rank, report.get from each, and stop.post to all at the end
    a rank:       order.get; then share.post to the next active rank, share.get, and report.post

A rank takes part in some steps only, and its step is that of the order.
"""

from __future__ import annotations

from random import Random
from typing import Any

from dpsim.contract.interface import Rank
from tests.blame.drawn import Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    active = tuple(tuple(sorted(random.sample(range(size), random.randint(2, size)))) for _ in range(steps))
    sleeps, in_turn = random.random() < 0.5, random.random() < 0.3

    async def coordinate(rank: Rank) -> None:
        reports = rank.mailbox("reports")
        for rank.step in range(steps):
            for to in active[rank.step]:
                rank.send(to, "orders", ("run", rank.step), "order.post")
            for _ in active[rank.step]:
                await reports.get("report.get")
        for to in range(size):
            rank.send(to, "orders", ("stop", steps), "stop.post")

    async def run(rank: Rank) -> None:
        if rank.name:
            return await coordinate(rank)
        orders, shares = rank.mailbox("orders"), rank.mailbox("shares")
        while True:
            order: Any = await orders.get("order.get", idle=sleeps)
            if order[0] == "stop":
                return
            rank.step = order[1]
            together = active[rank.step]
            place = together.index(rank.rank)
            if in_turn and place:
                await shares.get("share.before")
            rank.send(together[(place + 1) % len(together)], "shares", (rank.step, rank.rank), "share.post")
            if not (in_turn and place):
                await shares.get("share.get")
            rank.send(rank.service("coordinator"), "reports", rank.rank, "report.post")

    return drawn(size, run, services=["coordinator"])
