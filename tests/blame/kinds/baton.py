"""baton: two host threads of each rank take turns by flags. One computes, the other one communicates.

    main, step k:   ready.set, then done.wait and done.clear
    comm, step k:   ready.wait and ready.clear, meet.sum of all ranks, then done.set

Both threads set the step themselves, once for each iteration.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    every, count, checks = random.choice((1, 1, 2)), random.randint(1, 4), random.random() < 0.5

    async def run(rank: Rank) -> None:
        ready, done, world = rank.flag("ready"), rank.flag("done"), rank.host(ALL)

        async def communicate(rank: Rank) -> None:
            for rank.step in range(steps):
                await ready.wait("ready.wait")
                ready.clear("ready.clear")
                summed = await world.all_reduce(np.full(count, rank.step, np.int32), site="meet.sum")
                if rank.step % every == 0:
                    await world.barrier(site="meet.all")
                rank.decide("sum", int(summed[0]), ALL)
                done.set("done.set")

        thread = rank.start("comm", communicate)
        for rank.step in range(steps):
            await rank.sleep(1_000 * (rank.rank + 1), "compute")
            ready.set("ready.set")
            await done.wait("done.wait")
            done.clear("done.clear")
        error = await thread.join("comm.join")
        if checks and error is not None:
            raise RuntimeError(error)

    return drawn(size, run, threaded=True)
