"""A sum over all ranks by recursive doubling, as release 0.33 reduces the V2 runner's table on the host (specification
1.4).

In each round of the reduction, a rank and one peer send each other their tables, and both add. `exchanges` returns a
rank's peers in each round. If the number of ranks is a power of two, each tuple has one peer, and each rank has the
whole sum after log2(ranks) rounds:

    >>> exchanges(0, 8), exchanges(5, 8)
    ([(1,), (2,), (4,)], [(4,), (7,), (1,)])

If the number of ranks is not a power of two, the ranks form blocks. The size of a block is the largest power of two
that divides the number of ranks. Ranks first sum within their block, then swap sums with the ranks at the same place of
all other blocks. Six ranks form three blocks of two:

    >>> exchanges(0, 6), exchanges(3, 6)
    ([(1,), (2, 4)], [(2,), (1, 5)])

The results are bitwise equal, because both sides of a swap add the same two numbers, blocks in order.

The engine swaps contiguous tensors only. A rank with another layout calls the ordinary all-reduce, and the job hangs
(mutant M-DP-12).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import HostArray, HostCommunicator


def lanes_of(ranks: int) -> int:
    """The largest power of two that divides the number of ranks."""
    return ranks & -ranks


def exchanges(rank: int, ranks: int) -> list[tuple[int, ...]]:
    """The peers with which a rank swaps, one tuple for each round."""
    lanes = lanes_of(ranks)
    rounds: list[tuple[int, ...]] = [(rank ^ (1 << bit),) for bit in range(lanes.bit_length() - 1)]
    others = tuple([peer for peer in range(rank % lanes, ranks, lanes) if peer != rank])
    return [*rounds, others] if others else rounds


def summed(tables: Sequence[HostArray]) -> list[HostArray]:
    """The tables of all ranks at the end of a reduction, computed without messages."""
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
    """The calls of a rank in one reduction: the name of each call, and the ranks that take part."""
    if not contiguous:
        return [("all_reduce", tuple(range(ranks)))]
    return [("exchange", peers) for peers in exchanges(rank, ranks)]


async def sum_over(group: HostCommunicator, table: HostArray, site: str) -> HostArray:
    """Sum the tables of all members, int32 of equal shape, by swaps; the result is equal on every member.

    In each round a rank posts receives, posts sends, waits for receives, then for sends (specification 1.4).
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
