"""The part `made_groups`: pairs of neighbours make groups during the run, each with communicators on host and device.

Each member of a pair knows what the other one sends, so it can check the results. Each round gives the pair another
name.
"""

from __future__ import annotations

import numpy as np

from dpsim.testing.conformance.ground import Round, expect, refused

LAW = (
    "a group that ranks make during a run works like any other, between its members only. A "
    "wrong backend mixes in other ranks"
)


async def made_groups(at: Round) -> None:
    group, me = at.host, at.rank.rank
    place = group.index - group.index % 2
    pair = group.ranks[place : place + 2]
    other = next((rank for rank in pair if rank != me), None)
    name = f"pair.{at.step}"
    made = await at.rank.group(name, pair, device=True, site="conformance.group")
    expect("the members of a made group", made.ranks, pair, LAW)
    refused(ValueError, "a second group with the same name", lambda: at.rank.group(name, pair))
    refused(ValueError, "a group without the rank that makes it", lambda: at.rank.group("others", ()))
    total = np.sum([at.line(rank, 4, "int32") for rank in pair], axis=0, dtype=np.int32)
    expect("a sum in a made group", await made.all_reduce(at.line(me, 4, "int32")), total, LAW)
    buffer = at.put(4, "int32")
    at.rank.device(name).all_reduce(buffer, at.main)
    expect("a sum on the devices of a made group", await buffer.read("conformance.read"), total, LAW)
    if me == pair[0] and other is not None:
        received = made.recv_any(1, "int32", site="conformance.recv_any")
        expect("a message in a made group", (await received).source, other, LAW)
    elif other is not None:
        await made.send(np.zeros(1, np.int32), other, site="conformance.send")
    buffer.free()
