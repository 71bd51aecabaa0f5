"""gossip: in each round a rank tells what it knows to some other ranks, and waits for those that tell it something.

round 0   rank 0: tell to rank 2; hear from ranks 1 and 2
round 1   rank 0: tell to rank 1; no rank tells it anything
the end   settle: all ranks compare how many of the facts they know

The partners of each round are drawn. A message of a later round may come first, and waits until its round.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn


def draw(random: Random) -> Drawn:
    size, rounds, fan = random.randint(3, 6), random.randint(3, 8), random.randint(1, 2)
    told = [
        [random.sample([one for one in range(size) if one != rank], fan) for rank in range(size)] for _ in range(rounds)
    ]

    async def run(rank: Rank) -> None:
        known, heard = {rank.rank}, dict[int, list[tuple[int, ...]]]()
        for rank.step in range(rounds):
            for peer in told[rank.step][rank.rank]:
                rank.send(peer, "rumours", (rank.step, *sorted(known)), "tell")
            due = sum(rank.rank in peers for peers in told[rank.step])
            while len(heard.get(rank.step, ())) < due:
                message = await rank.mailbox("rumours").get("hear")
                assert isinstance(message, tuple)
                when, *facts = (int(str(one)) for one in message)
                heard.setdefault(when, []).append(tuple(facts))
            for rumour in heard.pop(rank.step, ()):
                known.update(rumour)
        rank.step = rounds
        least = await rank.host(ALL).all_reduce(np.array([len(known)], np.int32), op="min", site="settle")
        rank.decide("least", int(least[0]), ALL)

    return drawn(size, run)
