"""Whom a member of a collective waits for: those whose elements it gets, by the contract (`dpsim.interface`).

A member may wait for others too, and simulated or real machines do. Nobody may count on that, so the fold does not.
What a member gets is told by its own call. Members whose calls disagree are the ledger's finding; each part is then
what its own rank asked for.

    broadcast from rank 0, on rank 1                         rank 0
    the same, on rank 0                                      nobody
    all_gather of sizes 2, 0, 1 over ranks 0, 1, 2           ranks 0 and 2
    all_reduce of no elements                                nobody
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.ops import COLLECTIVE_ROOT, COLLECTIVE_SIZES, COUNT, OP, RawRecord


def awaited(raw: RawRecord, rank: int, members: Sequence[int]) -> Sequence[int]:
    """The ranks that have to come before the part of `rank` can fire; `members` itself where these are all. The rank
    may be among them.
    """
    op, count, sizes = raw[OP], raw[COUNT], raw[COLLECTIVE_SIZES]
    size = len(members)
    if op == "all_reduce":
        return members if count else ()
    if op == "broadcast":
        root = raw[COLLECTIVE_ROOT]
        if root not in members:
            return members
        return (root,) if count and root != rank else ()
    if op == "all_gather":
        return _some(members, sizes) if len(sizes) == size else members if count else ()
    if op == "reduce_scatter":
        piece = sizes[members.index(rank)] if len(sizes) == size else count // size
        return members if piece else ()
    if op == "all_to_all":
        return _some(members, sizes[size:]) if len(sizes) == 2 * size else members if count // size else ()
    return members


def is_idle(raw: RawRecord) -> bool:
    """Whether the rank neither gives elements nor gets any. On a device it then has no part at all: its stream does not
    stand in the collective, and the communicator gives it no turn.
    """
    if raw[OP] in ("all_gather", "all_to_all") and raw[COLLECTIVE_SIZES]:
        return not any(raw[COLLECTIVE_SIZES])
    return raw[OP] != "barrier" and not raw[COUNT]


def _some(members: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
    """The members from which elements come."""
    return members if all(sizes) else tuple(member for member, size in zip(members, sizes, strict=True) if size)
