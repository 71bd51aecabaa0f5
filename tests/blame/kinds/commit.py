"""commit: two-phase commits by messages. A coordinator prepares each transaction, collects the votes, and decides.

    coordinator:  prepare.post to each, vote.get from each, outcome.post to each, and perhaps ack.get from each
    others:       order.get, vote.post, outcome.get, and perhaps ack.post

With time-outs, a rank that waits too long raises.
"""

from __future__ import annotations

from random import Random
from typing import Any

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    leader, acks = random.choice((0, 0, size - 1)), random.random() < 0.5
    timeout_ns = random.choice((None, None, 100 * 10**9))
    no = frozenset((random.randrange(size), random.randrange(steps)) for _ in range(2))

    async def coordinate(rank: Rank) -> None:
        votes, others = rank.mailbox("votes"), [one for one in range(size) if one != leader]
        for rank.step in range(steps):
            for to in others:
                rank.send(to, "orders", ("prepare", rank.step), "prepare.post")
            agreed = (leader, rank.step) not in no
            for _ in others:
                vote: Any = await votes.get("vote.get", timeout_ns=timeout_ns)
                assert vote is not None, "a vote is missing"
                agreed = agreed and vote[1]
            rank.decide("commit", agreed, ALL)
            for to in others:
                rank.send(to, "orders", ("commit" if agreed else "abort", rank.step), "outcome.post")
            for _ in others if acks else ():
                ack = await rank.mailbox("acks").get("ack.get", timeout_ns=timeout_ns)
                assert ack is not None, "an acknowledgement is missing"

    async def run(rank: Rank) -> None:
        if rank.rank == leader:
            return await coordinate(rank)
        orders = rank.mailbox("orders")
        for rank.step in range(steps):
            order: Any = await orders.get("order.get", timeout_ns=timeout_ns)
            assert order is not None, "no order came"
            rank.send(leader, "votes", (rank.rank, (rank.rank, rank.step) not in no), "vote.post")
            outcome: Any = await orders.get("outcome.get", timeout_ns=timeout_ns)
            assert outcome is not None, "no outcome came"
            rank.decide("commit", outcome[0] == "commit", ALL)
            if acks:
                rank.send(leader, "acks", rank.rank, "ack.post")

    return drawn(size, run)
