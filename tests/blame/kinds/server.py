"""server: workers push gradients to parameter servers and pull the new parameters, in each step.

    a worker:  grad.send to each server, then params.recv from each
    a server:  grad.recv or grad.any once for each worker, then params.send to each

A server takes the gradients in the order of the workers, or in that of their arrival. It answers all workers together,
or each at once.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    servers = random.choice((1, 1, 2)) if size > 3 else 1
    count, as_they_come, at_once = random.randint(1, 4), random.random() < 0.5, random.random() < 0.5

    async def serve(rank: Rank) -> None:
        world, params, answers = rank.host(ALL), np.zeros(count, np.int32), []
        for rank.step in range(steps):
            pushed = []
            for worker in range(servers, size):
                if as_they_come:
                    source, grad = await world.recv_any(count, "int32", site="grad.any")
                else:
                    source, grad = worker, await world.recv(count, "int32", worker, site="grad.recv")
                params = params + grad
                pushed.append(source)
                if at_once:
                    answers.append(world.send(params, source, site="params.send"))
            if not at_once:
                answers += [world.send(params, worker, site="params.back") for worker in pushed]
        for answer in answers:
            await answer

    async def run(rank: Rank) -> None:
        if rank.rank < servers:
            return await serve(rank)
        world = rank.host(ALL)
        for rank.step in range(steps):
            for server in range(servers):
                sent = world.send(np.full(count, rank.rank, np.int32), server, site="grad.send")
                await world.recv(count, "int32", server, site="params.recv")
                await sent

    return drawn(size, run)
