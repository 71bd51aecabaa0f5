"""tree: in each step, the root sends a block down a tree of ranks, and perhaps the ranks send sums up again.

    a rank, step k:  down.recv from its parent, down.send to each child, up.recv from each child, up.send to its parent

The root is the same in all steps, or moves on by one rank in each step.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    fan_out, count = random.randint(1, 3), random.randint(1, 4)
    moves, up = random.random() < 0.4, random.random() < 0.5

    async def run(rank: Rank) -> None:
        world, flying = rank.host(ALL), []
        for rank.step in range(steps):
            root = rank.step % size if moves else 0
            place = (rank.rank - root) % size
            parent = (root + (place - 1) // fan_out) % size
            below = range(place * fan_out + 1, min(place * fan_out + fan_out + 1, size))
            children = [(root + child) % size for child in below]
            block = np.full(count, rank.step, np.int32)
            if place:
                block = await world.recv(count, "int32", parent, site="down.recv")
            flying += [world.send(block, child, site="down.send") for child in children]
            rank.decide("block", int(block[0]), ALL)
            if up:
                for child in children:
                    block = block + await world.recv(count, "int32", child, site="up.recv")
                if place:
                    flying.append(world.send(block, parent, site="up.send"))
        for sent in flying:
            await sent

    return drawn(size, run)
