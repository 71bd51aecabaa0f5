"""prefetch: a loader sends an item in each step, and each consumer receives it some steps later (double buffering).

    step k:  the loader: item.send of item k; a consumer: item.recv of item k - lag; all: step.sum

On devices, the loader and the consumers move items on a side stream, and the main stream waits for it.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized
from tests.programs import add, set_to


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    lag, count, consumers = random.choice((1, 2, 2)), random.randint(1, 4), random.randint(1, size - 1)

    async def on_hosts(rank: Rank) -> None:
        world, flying = rank.host(ALL), []
        consumes = 0 < rank.rank <= consumers
        for rank.step in range(steps):
            if rank.rank == 0:
                item = np.full(count, rank.step, np.int32)
                flying += [world.send(item, to, site="item.send") for to in range(1, consumers + 1)]
            if consumes and rank.step >= lag:
                await world.recv(count, "int32", 0, site="item.recv")
            await world.all_reduce(np.ones(1, np.int32), site="step.sum")
        for _ in range(min(lag, steps) if consumes else 0):
            await world.recv(count, "int32", 0, site="item.last")
        for sent in flying:
            await sent

    async def on_devices(rank: Rank) -> None:
        world, main, side = rank.device(ALL), rank.stream("main"), rank.stream("side")
        total = main.alloc(count, "int32", "total")
        main.launch("zero", set_to, writes=[total], args=(0,))
        slots = []
        for rank.step in range(steps):
            slot = side.alloc(count, "int32", "slot")
            if rank.rank == 0:
                side.launch("load", set_to, writes=[slot], args=(rank.step,))
            world.broadcast(slot, 0, side, site="item.share")
            slots.append((slot, side.record()))
            if rank.step >= lag:
                ready, event = slots[rank.step - lag]
                main.wait(event)
                main.launch("use", add, reads=[ready], writes=[total])
            sums = main.alloc(1, "int32", "sums")
            main.launch("one", set_to, writes=[sums], args=(1,))
            main.wait(side.record())
            world.all_reduce(sums, main, site="step.sum")
            side.wait_stream(main)
            sums.free()
        found = await total.read("total.read")
        rank.decide("total", int(found[0]), ALL)

    return drawn(size, random.choice((on_hosts, on_devices)))
