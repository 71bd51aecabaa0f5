"""microbatches: a pipeline of stages that runs one forward and one backward pass in turn, after unequal warm-ups.

    stage s:  size - s - 1 forward passes, then forward and backward in turn, then the other backward passes
    forward:  act.recv from the stage before, act.send to the next       backward:  grad.recv, grad.send
    then all stages meet in step.sum; the step is the number of the iteration

Transfers are awaited at the end of the run.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from dpsim.contract.interface import HostWork, Rank
from tests.blame.drawn import ALL, Drawn, drawn


def draw(random: Random) -> Drawn:
    size, steps = random.randint(3, 4), random.randint(3, 6)
    batches, count, ties = random.randint(2, 5), random.randint(1, 4), random.random() < 0.5

    async def run(rank: Rank) -> None:
        world, stage, flying = rank.host(ALL), rank.rank, list[HostWork[Any]]()

        async def forward() -> None:
            act = np.zeros(count, np.float32)
            if stage > 0:
                act = await world.recv(count, "float32", stage - 1, site="act.recv")
            if stage < size - 1:
                flying.append(world.send(act, stage + 1, site="act.send"))

        async def backward() -> None:
            grad = np.zeros(count, np.float32)
            if stage < size - 1:
                grad = await world.recv(count, "float32", stage + 1, site="grad.recv")
            if stage > 0:
                flying.append(world.send(grad, stage - 1, site="grad.send"))

        warm_up = min(size - stage - 1, batches)
        for rank.step in range(steps):
            for number in range(batches + warm_up):
                if number < batches:
                    await forward()
                if number >= warm_up:
                    await backward()
            if ties and stage in (0, size - 1):
                peer = size - 1 - stage
                flying.append(world.send(np.zeros(1, np.float32), peer, site="tied.send"))
                await world.recv(1, "float32", peer, site="tied.recv")
            await world.all_reduce(np.ones(1, np.int32), site="step.sum")
        for sent in flying:
            await sent

    return drawn(size, run)
