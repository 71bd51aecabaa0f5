"""ring: in each step, a piece of every rank travels around the ring, and each rank adds up all pieces.

    step 0, three ranks:  ring.send, ring.recv  twice, then the decision `total`

The step is the number of the round trip, so a step has several calls of each site.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    count, reverse, agrees = random.randint(1, 4), random.random() < 0.5, random.random() < 0.5

    async def run(rank: Rank) -> None:
        ring, way = rank.host(ALL), -1 if reverse else 1
        after, before = (rank.rank + way) % size, (rank.rank - way) % size
        for rank.step in range(steps):
            total = piece = np.full(count, rank.rank + 10 * rank.step, np.int32)
            for _ in range(size - 1):
                sent = ring.send(piece, after, site="ring.send")
                piece = await ring.recv(count, "int32", before, site="ring.recv")
                await sent
                total = total + piece
            if agrees:
                rank.decide("total", int(total[0]), ALL)

    return drawn(size, run)
