"""elastic: in each generation the workers tell rank 0, the agent, whether they want to train, and those form a group.

generation 0   ranks 1, 2 and 3: wish; rank 0: collect, form
               ranks 1 and 3: regroup, restore, train, leave
               rank 3, the last member: report

generation 1   ranks 1, 2 and 3 form a group, in which rank 2 gets the weights from rank 1

A step is a generation. The groups are made during the run, and a rank may be in none.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import Drawn, drawn


def draw(random: Random) -> Drawn:
    size, generations, rounds = random.randint(4, 6), random.randint(3, 6), random.randint(1, 3)
    workers = range(1, size)
    wanted = [sorted(random.sample(workers, random.randint(2, len(workers)))) for _ in range(generations)]

    async def agent(rank: Rank) -> None:
        for rank.step in range(generations):
            members: list[int] = []
            for _ in workers:
                wish = await rank.mailbox("wishes").get("collect")
                assert isinstance(wish, tuple)
                members += [int(str(wish[0]))] if wish[1] else []
            for worker in workers:
                rank.send(worker, "members", tuple(sorted(members)), "form")
            await rank.mailbox("reports").get("reported")

    async def run(rank: Rank) -> None:
        if rank.rank == 0:
            return await agent(rank)
        weights, before, members = 0, list[int](), list[int]()
        for rank.step in range(generations):
            rank.send(0, "wishes", (rank.rank, rank.rank in wanted[rank.step]), "wish")
            formed = await rank.mailbox("members").get("formed")
            assert isinstance(formed, tuple)
            before, members = members, [int(str(one)) for one in formed]
            if rank.rank not in members:
                continue
            name = f"generation{rank.step}"
            group = await rank.group(name, members, site="regroup")
            root = next((one for one in members if one in before), members[0])
            restored = await group.broadcast(np.array([weights], np.int32), root, site="restore")
            weights = int(restored[0])
            for _ in range(rounds):
                weights += int((await group.all_reduce(np.array([1], np.int32), site="train"))[0])
            rank.decide("weights", weights, name)
            await group.destroy(site="leave")
            if rank.rank == members[-1]:
                rank.send(0, "reports", weights, "report")

    return drawn(size, run)
