"""handover: a router deals requests to prefill ranks, and these hand the blocks of each to a decoder.

request 0   router: deal; prefill rank 1: job, header, blocks; decoder 3: any, take; router: freed

A decoder receives the headers from any source. The router chooses the decoder with the fewest requests, so the partners
depend on the order of events. A prefill rank or a decoder sets its step to the number of the request that it has.
At the end each prefill rank tells each decoder that it has no more, and the decoders add up what they got.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, group


def draw(random: Random) -> Drawn:
    prefill, decode, window = random.randint(1, 3), random.randint(1, 2), random.randint(1, 3)
    lengths = [random.randint(1, 3) for _ in range(random.randint(3, 8))]
    size, first = 1 + prefill + decode, 1 + prefill

    async def route(rank: Rank, lengths: list[int], window: int) -> None:
        load = dict.fromkeys(range(first, size), 0)
        for rank.step, length in enumerate(lengths):
            if rank.step >= window:
                load[int(str(await rank.mailbox("freed").get("freed")))] -= 1
            decoder = min(load, key=lambda one: (load[one], one))
            load[decoder] += 1
            rank.send(1 + rank.step % prefill, "jobs", (rank.step, length, decoder), "deal")
        for _ in range(min(window, len(lengths))):
            await rank.mailbox("freed").get("drained")
        for one in range(1, first):
            rank.send(one, "jobs", (len(lengths), 0, 0), "stop")

    async def fill(rank: Rank) -> None:
        while True:
            job = await rank.mailbox("jobs").get("job")
            assert isinstance(job, tuple)
            rank.step, length, decoder = (int(str(one)) for one in job)
            if not length:
                break
            await rank.host(ALL).send(np.array([rank.step, length], np.int32), decoder, site="header")
            await rank.host(ALL).send(np.full(length, rank.step, np.int32), decoder, site="blocks")
        for decoder in range(first, size):
            await rank.host(ALL).send(np.array([len(lengths), 0], np.int32), decoder, site="no_more")

    async def run(rank: Rank) -> None:
        if rank.rank < first:
            return await (fill(rank) if rank.rank else route(rank, lengths, window))
        left, total = prefill, 0
        while left:
            source, header = await rank.host(ALL).recv_any(2, "int32", site="any")
            rank.step = int(header[0])
            if header[1] == 0:
                left -= 1
                continue
            total += int((await rank.host(ALL).recv(int(header[1]), "int32", source, site="take")).sum())
            rank.send(0, "freed", rank.rank, "free")
        sums = await rank.host("decoders").all_reduce(np.array([total], np.int32), site="total")
        rank.decide("total", int(sums[0]), "decoders")

    return drawn(size, run, [group("decoders", range(first, size))])
