"""lease: in each step all ranks need one kernel; the rank that claims it at a store builds it, and the others fetch it.

step 0   all ranks: claim
         rank 1, the first: fence, build, publish
         the others: fetch, with a time-out
         all ranks: usable

If a rank gave up, all ranks run the step without the kernel, and meet in `eager`. In a later step with the same kernel,
they find its binary.

The rank that builds depends on the order of events, and each key has the number of its kernel.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn

PORT, BUILD_NS = 2950, 20_000


def draw(random: Random) -> Drawn:
    size, steps, patience_ns = random.randint(3, 4), random.randint(3, 6), random.choice((5_000, 50_000, 1_000_000))
    kernels = [random.randrange(3) for _ in range(steps)]

    async def run(rank: Rank) -> None:
        group, built = rank.host(ALL), dict[int, int]()
        store = await (rank.join_store(0, PORT, "join") if rank.rank else rank.open_store(PORT, "open"))
        assert store is not None
        for rank.step, kernel in enumerate(kernels):
            if kernel in built:
                token = built[kernel]
            elif await store.compare_set(f"kernel{kernel}.owner", "", rank.rank + 1, "claim") == rank.rank + 1:
                token = built[kernel] = await store.add("tokens", 1, "fence") or 0
                await rank.sleep(BUILD_NS, "build")
                store.set(f"kernel{kernel}.binary", token, "publish")
            else:
                fetched = await store.get(f"kernel{kernel}.binary", "fetch", timeout_ns=patience_ns)
                token = int(str(fetched or 0))
            least = await group.all_reduce(np.array([token], np.int32), op="min", site="usable")
            rank.decide("token", int(least[0]), ALL)
            if least[0] == 0:
                await group.barrier(site="eager")
        total = await group.all_reduce(np.array([len(built)], np.int32), site="builds")
        rank.decide("builds", int(total[0]), ALL)

    return drawn(size, run)
