"""broadcast: every member receives the elements of the root, in place on a device.

    input 1 2 | 10 20 | 100 200, root 1    ->    10 20 | 10 20 | 10 20

The root of a broadcast only sends, so the op only reads its memory. The other members only receive, so the op only
writes theirs. They wait for the root, and the root waits for no member. All members have to give equal op, count, dtype
and root.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream


class Broadcast(CollectiveRules):
    __slots__ = ()

    rooted = even = shared = True

    def gives(self, root: int | None, rank: int) -> bool:
        return rank == root

    def gets(self, root: int | None, rank: int) -> bool:
        return rank != root

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        root = call[3]
        if root not in members:
            return members
        return (root,) if call[1] and root != rank else ()

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return np.array(sent.wires[sent.indices[call[3]]])

    @staticmethod
    def on_host(group: HostMember, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        call = "broadcast", array.size, dtype, group._root(root), None, ()
        return group._collective(call, array, array.shape, site)

    @staticmethod
    def on_device(group: DeviceMember, buffer: Buffer, root: int, stream: Stream, *, site: str | None = None) -> None:
        root = group._root(root)
        call = "broadcast", group._count_of(buffer), buffer.dtype, root, None, ()
        group._collective(call, buffer, buffer, stream, site)


RULES = Broadcast()
