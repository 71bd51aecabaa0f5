"""The wait set of a rank in a collective: the members whose elements it receives, so that it has to wait for them
(`dpsim.contract.interface`).

In a collective, a member may wait for more members than its wait set, and libraries do. A program must not rely on
that, so the simulation and the checks do not either. Each rank's wait set follows from its own call. If the calls of
members disagree, the ledger check reports this.

    broadcast from rank 0, on rank 1                         rank 0
    the same, on rank 0                                      no member
    reduce to rank 0, on rank 0                              all
    all_gather of sizes 2, 0, 1 over ranks 0, 1, 2           ranks 0 and 2
    all_reduce of no elements                                no member

A call is a tuple that begins with op, count, dtype, root, reduce and sizes, as in records (`dpsim.contract.ops.CALL`).
The file of the collective defines its wait set (`dpsim.contract.collectives`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dpsim.contract.collectives import COLLECTIVES, UNKNOWN
from dpsim.contract.collectives.rules import Call


def awaited(call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
    """Returns the ranks that have to arrive before the part of `rank` can end; `members` itself if these are all. The
    rank itself may be among them.

    >>> awaited(("broadcast", 1, "int32", 0, None, ()), 2, (0, 1, 2))
    (0,)
    >>> awaited(("barrier", 0, "int32", None, None, ()), 0, (0, 1))
    (0, 1)
    >>> awaited(("all_gather", 2, "int32", None, None, (0, 2, 1)), 1, (5, 1, 7))
    (1, 7)
    """
    op = call[0]
    return () if op == "send" else COLLECTIVES.get(op, UNKNOWN).awaits(call, rank, members)


@lru_cache(4096)
def is_idle(call: Call) -> bool:
    """Whether the rank neither sends nor receives elements. On a device, its stream then does not wait in the
    collective, and the call has no place in the order of the communicator.

    >>> is_idle(("all_reduce", 0, "int32", None, "sum", ())), is_idle(("barrier", 0, "int32", None, None, ()))
    (True, False)
    >>> gives, gets = (1, 1), (0, 0)
    >>> is_idle(("all_to_all", 2, "int32", None, None, gives + gets))
    False
    """
    return COLLECTIVES.get(call[0], UNKNOWN).is_idle(call)
