"""The part `transfers`: sends and receives around a ring, on host and device, lone and coalesced, small and large.

A backend may complete a send before or after the receive, and a correct program allows both. Libraries send small
messages eagerly. The large ones here have 1 MiB, more than any library sends eagerly.
"""

from __future__ import annotations

import numpy as np

from dpsim.contract.interface import Buffer
from dpsim.testing.conformance.ground import Round, expect, line

LARGE = 1 << 18
"""Elements of int32."""


async def transfers(at: Round) -> None:
    if at.host.size > 1:
        await _host(at)
        for count in (4, LARGE):
            await _lone(at, count)
            await _coalesced(at, count)


async def _host(at: Round) -> None:
    group, n = at.host, at.host.size
    after, before = group.ranks[(group.index + 1) % n], group.ranks[(group.index - 1) % n]
    early = group.recv((1, 2), "float32", before, site="conformance.recv")
    sent = [np.full(2, 10 * at.rank.rank + number + at.step, np.float32) for number in range(3)]
    works = [group.send(array, after) for array in sent]
    sent[2][:] = -1
    wanted = [np.full(2, 10 * before + number + at.step, np.float32) for number in range(3)]
    law = (
        "transfers between two ranks arrive in order, with the content that the array had at the "
        "send. A wrong backend reorders them, or reads the array later"
    )
    expect("the first host recv, made before the sends", await early, wanted[0].reshape(1, 2), law)
    for number in (1, 2):
        expect(f"host recv {number} of 2", await group.recv(2, "float32", before), wanted[number], law)
    for work in works:
        expect(
            "host send",
            (await work).size,
            0,
            "the await of a send returns an empty array. A wrong backend returns elements",
        )
    large = group.send(at.line(at.rank.rank, LARGE, "int32"), after)
    got = await group.recv(LARGE, "int32", before)
    expect(
        "a large host recv",
        got,
        at.line(before, LARGE, "int32"),
        (
            "recv returns all elements that global rank `source` sent, however many. A wrong backend "
            "truncates or changes a large message"
        ),
    )
    await large


async def _lone(at: Round, count: int) -> None:
    """Members with an even index send first, so a blocking send causes no hang."""
    group, n, me = at.device, at.device.size, at.device.index
    after, before = group.ranks[(me + 1) % n], group.ranks[(me - 1) % n]
    mine, more = at.put(count, "int32"), at.alloc(count, "int32")
    at.main.launch("conformance.line", line, writes=[more], args=(7 * at.rank.rank, 1))
    first, second = at.alloc(count, "int32"), at.alloc(count, "int32")
    for parity in (0, 1):
        for member in range(parity, n, 2):
            if member == me:
                group.send(mine, after, at.main)
                group.send(more, after, at.main)
            elif (member + 1) % n == me:
                group.recv(first, before, at.main)
                group.recv(second, before, at.main)
    law = (
        "a transfer runs in stream order, and transfers between two ranks match in the order of "
        "their calls. A wrong backend swaps or truncates them"
    )
    wanted = np.arange(7 * before, 7 * before + count, dtype=np.int32)
    expect(f"a recv of {count}", await first.read("conformance.read"), at.line(before, count, "int32"), law)
    expect(f"the recv of {count} after it", await second.read("conformance.read"), wanted, law)
    for buffer in (mine, more, first, second):
        buffer.free()


async def _coalesced(at: Round, count: int) -> None:
    """Each member sends to both neighbours first and then receives. This only ends if the group is issued as one."""
    group, n, me = at.device, at.device.size, at.device.index
    after, before = group.ranks[(me + 1) % n], group.ranks[(me - 1) % n]
    mine, theirs = at.put((2, count), "int32"), at.main.alloc((2, count), "int32", "conformance.theirs")
    with group.coalesced(at.main):
        group.send(_row(mine, 0), after, at.main)
        group.send(_row(mine, 1), before, at.main)
        group.recv(_row(theirs, 0), before, at.main)
        group.recv(_row(theirs, 1), after, at.main)
    with group.coalesced(at.main):
        pass
    sent = {rank: at.line(rank, 2 * count, "int32").reshape(2, count) for rank in (before, after)}
    wanted = np.stack([sent[before][0], sent[after][1]])  # also if both are the same peer
    law = (
        "transfers of a coalesced group run together, and those with one peer match in the order "
        "of their calls. A wrong backend swaps them, or hangs"
    )
    expect(f"an exchange of {count} with both", await theirs.read("conformance.read"), wanted, law)
    mine.free()
    theirs.free()


def _row(buffer: Buffer, row: int) -> Buffer:
    return buffer.view(row, row + 1)
