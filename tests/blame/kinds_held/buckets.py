"""buckets: each step reduces the gradients that it has on a second stream, in three calls over two kinds of groups.

bucket 2 of step 0   backward on stream main, and then on stream comm: node.reduce, leaders.sum, node.spread
bucket 0 of step 0   the same, while bucket 2 is still under way
end of step 0        update on stream main, after all of comm; then `norm` on hosts, in every few steps

Only the first rank of each node is a leader. A step has some of the buckets. Their order differs from step to step.
"""

from __future__ import annotations

from random import Random

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, group
from tests.programs import add, set_to


def draw(random: Random) -> Drawn:
    each, steps, every = random.randint(2, 3), random.randint(3, 6), random.randint(1, 3)
    size, counts = 2 * each, [random.randint(1, 4) for _ in range(random.randint(2, 4))]
    orders = [random.sample(range(len(counts)), random.randint(1, len(counts))) for _ in range(steps)]

    async def run(rank: Rank) -> None:
        main, comm, node = rank.stream("main"), rank.stream("comm"), rank.device("node")
        leader = rank.rank - rank.rank % each
        for rank.step in range(steps):
            sums = main.alloc(1, "int32", "sums")
            main.launch("zero", set_to, writes=[sums], args=(0,))
            gradients = []
            for bucket in orders[rank.step]:
                gradient = main.alloc(counts[bucket], "int32", "gradient")
                main.launch("backward", set_to, writes=[gradient], args=(rank.rank + bucket,))
                comm.wait_stream(main)
                node.reduce(gradient, leader, comm, site="node.reduce")
                if rank.rank == leader:
                    rank.device("leaders").all_reduce(gradient, comm, site="leaders.sum")
                node.broadcast(gradient, leader, comm, site="node.spread")
                gradients.append(gradient)
            main.wait_stream(comm)
            for gradient in gradients:
                main.launch("update", add, reads=[gradient.view(0, 1)], writes=[sums])
            norm = await sums.read("sums.read")
            rank.decide("sum", int(norm[0]), ALL)
            if rank.step % every == every - 1:
                await rank.host(ALL).all_reduce(norm, op="max", site="norm")
            for buffer in (*gradients, sums):
                buffer.free()

    leaders = group("leaders", (0, each), "device")
    return drawn(size, run, [leaders, *(group("node", range(at, at + each), "device") for at in (0, each))])
