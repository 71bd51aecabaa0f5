"""credits: a pipeline of stages. A stage may run a few items ahead of the next one, which returns a credit for each.

    stage 1, item k:  item.recv, credit.send to stage 0, credit.recv if no credit is left, item.send to stage 2

The step of a stage is the number of the item. Items and credits are transfers or messages. So item k is sent in step k,
but its credit comes back in a later step of the sender.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    window, count, collects = random.randint(1, 3), random.randint(1, 4), random.random() < 0.5

    async def by_transfers(rank: Rank) -> None:
        world, me, credit, flying = rank.host(ALL), rank.rank, window, []
        item = np.zeros(count, np.int32)
        for rank.step in range(steps):
            if me > 0:
                item = await world.recv(count, "int32", me - 1, site="item.recv")
                flying.append(world.send(np.ones(1, np.int8), me - 1, site="credit.send"))
            if me < size - 1:
                if credit == 0:
                    await world.recv(1, "int8", me + 1, site="credit.recv")
                    credit += 1
                flying.append(world.send(item + 1, me + 1, site="item.send"))
                credit -= 1
        while me < size - 1 and credit < window:
            await world.recv(1, "int8", me + 1, site="credit.last")
            credit += 1
        for sent in flying:
            await sent

    async def by_mail(rank: Rank) -> None:
        items, credits, me, credit = rank.mailbox("items"), rank.mailbox("credits"), rank.rank, window
        for rank.step in range(steps):
            if me > 0:
                await items.get("item.get")
                rank.send(me - 1, "credits", 1, "credit.post")
            if me < size - 1:
                if credit == 0:
                    await credits.get("credit.get")
                    credit += 1
                rank.send(me + 1, "items", (rank.step, count), "item.post")
                credit -= 1
        while collects and me < size - 1 and credit < window:
            await credits.get("credit.last")
            credit += 1

    return drawn(size, by_mail if random.random() < 0.4 else by_transfers)
