"""election: in each round, the rank with the largest number becomes the leader. Numbers travel around a ring.

    own.send     a rank begins with its own number        pass.send     it passes on a larger one
    leader.send  the rank whose number returns has won     leader.pass   the others pass the result on

Words travel as transfers or as messages, always to the next rank. The step is the round.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized

CANDIDATE, LEADER = 0, 1


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    numbers = tuple(tuple(random.sample(range(10 * size), size)) for _ in range(steps))
    by_mail = random.random() < 0.5

    async def run(rank: Rank) -> None:
        world, box, after, flying = rank.host(ALL), rank.mailbox("ring"), (rank.rank + 1) % size, []

        def tell(what: int, number: int, site: str) -> None:
            if by_mail:
                rank.send(after, "ring", (what, number), f"{site}.post")
            else:
                flying.append(world.send(np.array([what, number], np.int32), after, site=f"{site}.send"))

        for rank.step in range(steps):
            own, leader = numbers[rank.step][rank.rank], -1
            tell(CANDIDATE, own, "own")
            while leader < 0:
                word: Any
                if by_mail:
                    word = await box.get("ring.get")
                else:
                    word = await world.recv(2, "int32", (rank.rank - 1) % size, site="ring.recv")
                what, number = int(word[0]), int(word[1])
                if what == LEADER:
                    leader = number
                    if number != own:
                        tell(LEADER, number, "pass.leader")
                elif number == own:
                    tell(LEADER, own, "leader")
                elif number > own:
                    tell(CANDIDATE, number, "pass.own")
            rank.decide("leader", leader, ALL)
        for sent in flying:
            await sent

    return drawn(size, run)
