"""A sum over all ranks by recursive doubling: how release 0.33 reduces the V2 runner's table on the host (1.4).

In each round a rank swaps its table with one peer and adds. After log2(n) rounds all ranks have the whole sum:

    >>> exchanges(0, 8), exchanges(5, 8)
    ([(1,), (2,), (4,)], [(4,), (7,), (1,)])

Let n = blocks x lanes ranks, with lanes the largest power of two in n. Then ranks do this within each block. Afterwards
each lane swaps with the same lane of all other blocks at once:

    >>> exchanges(0, 6), exchanges(3, 6)
    ([(1,), (2, 4)], [(2,), (1, 5)])

All ranks end with the same bits. The two sides of a swap add the same two numbers, and each rank adds the sums of
blocks in the order of the blocks.

The engine swaps plain memory. A tensor that is not contiguous goes to the ordinary all-reduce instead, and the peers do
not know (`calls`). So the same function is two protocols, and the layout of a rank's tensor decides which one it
speaks (M-DP-12).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import HostArray, HostCommunicator


def lanes_of(ranks: int) -> int:
    """The largest power of two that divides the number of ranks."""
    return ranks & -ranks


def exchanges(rank: int, ranks: int) -> list[tuple[int, ...]]:
    """The peers with which a rank swaps, round by round."""
    lanes = lanes_of(ranks)
    rounds: list[tuple[int, ...]] = [(rank ^ (1 << bit),) for bit in range(lanes.bit_length() - 1)]
    others = tuple([peer for peer in range(rank % lanes, ranks, lanes) if peer != rank])
    return [*rounds, others] if others else rounds


def summed(tables: Sequence[HostArray]) -> list[HostArray]:
    """The final table of each rank, from the tables at the beginning."""
    has, lanes = list(tables), lanes_of(len(tables))
    for bit in range(lanes.bit_length() - 1):
        has = [has[rank] + has[rank ^ (1 << bit)] for rank in range(len(has))]
    for lane in range(lanes):
        total = has[lane]
        for block in has[lane + lanes :: lanes]:
            total = total + block
        has[lane::lanes] = [total] * len(has[lane::lanes])
    return has


def calls(rank: int, ranks: int, contiguous: bool = True) -> list[tuple[str, tuple[int, ...]]]:
    """The calls of a rank in one reduction, with their peers."""
    if not contiguous:
        return [("all_reduce", tuple(range(ranks)))]
    return [("exchange", peers) for peers in exchanges(rank, ranks)]


async def sum_over(group: HostCommunicator, table: HostArray, site: str) -> HostArray:
    """Reduce over the wire: the sum of all members' tables, int32 of equal shape, on every member.

    Each round posts its receives, then its sends, and waits in this order (1.4). A rank adds sums of blocks in the
    order of the blocks. A table that is not contiguous goes to the ordinary all-reduce, whatever the peers do.
    """
    if not table.flags.c_contiguous:
        return await group.all_reduce(table, site=site)
    for peers in exchanges(group.index, group.size):
        coming = {peer: group.recv(table.shape, "int32", group.ranks[peer], site=site) for peer in peers}
        going = [group.send(table, group.ranks[peer], site=site) for peer in peers]
        blocks: dict[int, HostArray] = {group.index: table} | {peer: await one for peer, one in coming.items()}
        for one in going:
            await one
        first, *others = sorted(blocks)
        table = blocks[first]
        for peer in others:
            table = table + blocks[peer]
    return table
