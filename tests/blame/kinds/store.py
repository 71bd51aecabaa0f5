"""store: ranks meet by keys and counters of a store, as they do before they have a communicator.

    rank 0:   store.open          others:  store.join
    step k:   own.set of "k/RANK", peer.get of the keys of others, then a barrier
    barrier:  count.add on "k/count"; go.set of "k/go" by the last rank, go.get by the others

With time-outs, a rank that waits too long raises.
"""

from __future__ import annotations

from random import Random

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, sized

PORT = 29_500


def draw(random: Random) -> Drawn:
    size, steps = sized(random)
    all_peers, counts = random.random() < 0.5, random.random() < 0.7
    timeout_ns = random.choice((None, 100 * 10**9))

    async def run(rank: Rank) -> None:
        if rank.rank == 0:
            store = await rank.open_store(PORT, "store.open")
        else:
            store = await rank.join_store(0, PORT, "store.join")
        assert store is not None, "the port is in use"
        for rank.step in range(steps):
            store.set(f"{rank.step}/{rank.rank}", rank.rank + rank.step, "own.set")
            peers = range(size) if all_peers else [(rank.rank + 1) % size]
            for peer in peers:
                value = await store.get(f"{rank.step}/{peer}", "peer.get", timeout_ns=timeout_ns)
                if value is None:
                    raise RuntimeError(f"rank {peer} set no key in time")
            if counts:
                arrived = await store.add(f"{rank.step}/count", 1, "count.add")
                if arrived == size:
                    store.set(f"{rank.step}/go", 1, "go.set")
                elif await store.get(f"{rank.step}/go", "go.get", timeout_ns=timeout_ns) is None:
                    raise RuntimeError("the barrier did not open in time")
            else:
                await rank.host(ALL).barrier(site="meet")

    return drawn(size, run)
