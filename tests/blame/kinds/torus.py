"""torus: ranks in rows and columns. In each step, a rank meets its row, then its column, and exchanges borders.

    host:    row.sum, col.gather, then east.send and west.recv with the neighbours of the row
    device:  row.sum, col.share on streams; a read of the buffer ends the step

Each rank is in two groups, and the order of the two calls is the same on all ranks.
"""

from __future__ import annotations

from random import Random

import numpy as np

from dpsim.contract.interface import Rank
from tests.blame.drawn import Drawn, drawn, group
from tests.programs import set_to


def draw(random: Random) -> Drawn:
    rows, columns = random.choice(((2, 2), (2, 3), (3, 2)))
    steps, count, borders = random.randint(3, 8), random.randint(1, 4), random.random() < 0.5
    columns_first, turns = random.random() < 0.5, random.random() < 0.5
    groups = [
        group(kind, ranks, domain)
        for domain in ("host", "device")
        for kind, several in (
            ("row", [range(row * columns, row * columns + columns) for row in range(rows)]),
            ("col", [range(column, rows * columns, columns) for column in range(columns)]),
        )
        for ranks in several
    ]

    async def on_hosts(rank: Rank) -> None:
        row, column = rank.host("row"), rank.host("col")
        for rank.step in range(steps):
            block = np.full(count, rank.rank + rank.step, np.int32)
            if columns_first:
                await column.all_gather(block, site="col.before")
            block = await row.all_reduce(block, site="row.sum")
            rank.decide("row", int(block[0]), "row")
            if not columns_first:
                await column.all_gather(block, site="col.gather")
            if borders:
                sent = row.send(block, row.ranks[(row.index + 1) % row.size], site="east.send")
                await row.recv(count, "int32", row.ranks[row.index - 1], site="west.recv")
                await sent

    async def on_devices(rank: Rank) -> None:
        row, column, main = rank.device("row"), rank.device("col"), rank.stream("main")
        for rank.step in range(steps):
            block = main.alloc(count, "int32", "block")
            main.launch("fill", set_to, writes=[block], args=(rank.rank,))
            row.all_reduce(block, main, site="row.sum")
            root = column.ranks[rank.step % column.size if turns else 0]
            column.broadcast(block, root, main, site="col.share")
            found = await block.read("block.read")
            rank.decide("col", int(found[0]), "col")
            block.free()

    return drawn(rows * columns, random.choice((on_hosts, on_devices)), groups)
