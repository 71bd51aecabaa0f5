"""experts: attention ranks send tokens to the ranks with experts, and get them back, by a table that all ranks gather.

step 0, ranks 0 and 1 before ranks 2 to 4 with the experts:
  pad               the attention ranks agree on a batch
  routes            all ranks gather how many tokens each attention rank has for each expert
  dispatch, combine a transfer for each pair with tokens, on devices; a pair without tokens has none
  load, placement   after every few steps: the experts gather their load, and one of them tells all ranks

So the partners of a rank change from step to step, and the two roles differ in number and in their calls.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import ALL, Drawn, drawn, group
from tests.programs import set_to


def draw(random: Random) -> Drawn:
    front, back, steps = random.randint(2, 3), random.randint(1, 3), random.randint(3, 6)
    every, padded, size = random.randint(2, 3), random.random() < 0.5, front + back
    table = [[[random.choice((0, 1, 1, 2)) for _ in range(back)] for _ in range(front)] for _ in range(steps)]

    async def agreed(rank: Rank, table: list[list[int]]) -> list[tuple[int, int]]:
        """The peers of this rank in this step, with the number of tokens."""
        attends = rank.rank < front
        row = np.array(table[rank.rank] if attends else [0] * back, np.int32)
        routes = (await rank.host(ALL).all_gather(row, site="routes")).reshape(size, back)
        rank.decide("tokens", int(routes.sum()), ALL)
        counts = list(routes[rank.rank]) if attends else list(routes[:front, rank.rank - front])
        return [(peer + front * attends, int(count)) for peer, count in enumerate(counts) if count]

    async def run(rank: Rank) -> None:
        attends, wire, main = rank.rank < front, rank.device(ALL), rank.stream("main")
        for rank.step in range(steps):
            if attends and padded:
                await rank.host("front").all_reduce(np.array([rank.rank], np.int32), op="max", site="pad")
            pairs = await agreed(rank, table[rank.step])
            held = {peer: main.alloc(count, "int32", "tokens") for peer, count in pairs}
            for sends in (True, False):
                if attends == sends:
                    for buffer in held.values():
                        main.launch("compute", set_to, writes=[buffer], args=(rank.step,))
                with wire.coalesced(main):
                    for peer, buffer in held.items():
                        if attends == sends:
                            wire.send(buffer, peer, main, site="dispatch" if sends else "combine")
                        else:
                            wire.recv(buffer, peer, main, site="dispatched" if sends else "combined")
            for buffer in held.values():
                await buffer.read("tokens.read")
                buffer.free()
            if rank.step % every == every - 1:
                if not attends:
                    await rank.host("back").all_gather(np.array([len(held)], np.int32), site="load")
                root = front + rank.step % back
                await rank.host(ALL).broadcast(np.array([rank.step], np.int32), root, site="placement")

    return drawn(size, run, [group("front", range(front)), group("back", range(front, size))])
