"""checkpoint: ranks train, and in every few steps each gives a snapshot to its thread `saver`, which writes it.

step 0, 1        gradient on all ranks; after step 1: snapshot of epoch 0
epoch 0, saver   take, shards gathered on rank 0, written; then `durable0` is set
step 2, 3        gradient; after step 3 and before the snapshot of epoch 1: last_saved, if `late` is 1

So the two threads of a rank use two groups, and a step of training depends on a write that began `late` epochs before.
The rank that writes is another one in each epoch.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, group


def draw(random: Random) -> Drawn:
    size, steps = random.randint(3, 5), random.randint(4, 8)
    every, late, shard = random.randint(1, 2), random.randint(1, 2), random.randint(1, 3)
    epochs, checked = steps // every, random.random() < 0.5

    async def run(rank: Rank) -> None:
        async def saves(rank: Rank) -> None:
            for epoch in range(epochs):
                await rank.flag(f"snapshot{epoch}").wait("take")
                rank.step = epoch
                mine, root = np.full(shard, rank.rank + epoch, np.int32), epoch % size
                shards = await rank.host("io").gather(mine, root, site="shards")
                total = np.array([int(shards.sum())], np.int32)
                total = await rank.host("io").broadcast(total, root, site="written")
                rank.decide("written", int(total[0]), "io")
                rank.flag(f"durable{epoch}").set("saved")

        saver = rank.start("saver", saves)
        for rank.step in range(steps):
            gradient = await rank.host(ALL).all_reduce(np.array([rank.step], np.int32), site="gradient")
            if checked:
                rank.decide("gradient", int(gradient[0]), ALL)
            if rank.step % every == every - 1:
                epoch = rank.step // every
                if epoch >= late:
                    await rank.flag(f"durable{epoch - late}").wait("last_saved")
                rank.flag(f"snapshot{epoch}").set("snapshot")
        if failed := await saver.join("saver.join"):
            raise RuntimeError(f"the last snapshot is not written: {failed}")
        await rank.host(ALL).barrier(site="end")

    return drawn(size, run, [group("io", range(size))], threaded=True)
