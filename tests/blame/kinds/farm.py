"""farm: workers ask a master for tasks, and the master takes the requests as they come (any source).

    a worker:    ask.send, then task.recv, until the task is 0
    the master:  ask.any, then task.send to the rank that asked; its step is the number of the task

Each worker has its own pace, so the master serves the workers unequally often.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    tasks, sums = steps + size, random.random() < 0.5
    paces = tuple(random.choice((10**3, 10**4, 10**5)) for _ in range(size))

    async def hand_out(rank: Rank) -> None:
        world = rank.host(ALL)
        for rank.step in range(tasks + size - 1):
            source, _ = await world.recv_any(1, "int32", site="ask.any")
            task = rank.step + 1 if rank.step < tasks else 0
            await world.send(np.full(2, task, np.int32), source, site="task.send")

    async def run(rank: Rank) -> None:
        world, task = rank.host(ALL), 1
        if rank.rank == 0:
            await hand_out(rank)
        while rank.rank and task:
            sent = world.send(np.full(1, rank.rank, np.int32), 0, site="ask.send")
            task = int((await world.recv(2, "int32", 0, site="task.recv"))[0])
            await sent
            if task:
                await rank.sleep(paces[rank.rank], "work")
                rank.step += 1
        if sums:
            rank.step = tasks
            await world.all_reduce(np.ones(1, np.int32), site="last.sum")

    return drawn(size, run)
