"""Whom a member of a collective waits for: those whose elements it gets, by the contract (`dpsim.contract.interface`).

A member may wait for others too, and simulated or real machines do. Nobody may count on that, so neither the simulation
nor the checks do. What a member gets is told by its own call. Members whose calls disagree are the ledger's finding;
each part is then what its own rank asked for.

    broadcast from rank 0, on rank 1                         rank 0
    the same, on rank 0                                      nobody
    all_gather of sizes 2, 0, 1 over ranks 0, 1, 2           ranks 0 and 2
    all_reduce of no elements                                nobody

A call is a tuple that begins with op, count, dtype, root, reduce and sizes. Records have these side by side
(`dpsim.contract.ops.CALL`), and what a backend issues begins with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

Call: TypeAlias = tuple[Any, ...]


def awaited(call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
    """The ranks that have to come before the part of `rank` can end; `members` itself where these are all. The rank
    may be among them.

    >>> awaited(("broadcast", 1, "int32", 0, None, ()), 2, (0, 1, 2))
    (0,)
    >>> awaited(("barrier", 0, "int32", None, None, ()), 0, (0, 1))
    (0, 1)
    >>> awaited(("all_gather", 2, "int32", None, None, (0, 2, 1)), 1, (5, 1, 7))
    (1, 7)
    """
    op, count, _, root, _, sizes = call[:6]
    size = len(members)
    if op == "all_reduce":
        return members if count else ()
    if op == "broadcast":
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
    return () if op == "send" else members


def is_idle(call: Call) -> bool:
    """Whether the rank neither gives elements nor gets any. On a device it then has no part at all: its stream does not
    stand in the collective, and the communicator gives it no turn.

    >>> is_idle(("all_reduce", 0, "int32", None, "sum", ())), is_idle(("barrier", 0, "int32", None, None, ()))
    (True, False)
    >>> gives, gets = (1, 1), (0, 0)
    >>> is_idle(("all_to_all", 2, "int32", None, None, gives + gets))
    False
    """
    op, count, _, _, _, sizes = call[:6]
    if sizes and op in ("all_gather", "all_to_all"):
        return not any(sizes)
    return op != "barrier" and not count


def _some(members: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
    """The members from which elements come."""
    return members if all(sizes) else tuple(member for member, size in zip(members, sizes, strict=True) if size)
