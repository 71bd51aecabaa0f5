"""scatter: every member receives its piece of the root's elements.

    input 1 2 3 | 10 20 30 | 100 200 300, root 1    ->    10 | 20 | 30

In a scatter, only the root sends elements, and it also receives its piece. All other members wait for the root, and the
root waits for no member. All members have to give equal op, count, dtype and root; the count is that of all pieces
together.

On a device only the root of a scatter needs a source, so the others may pass None (`torch.distributed.scatter`). On the
host the others pass an array of the same shape, whose contents no rank reads, as for a broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.contract.collectives.arguments import check_fits, equal_size
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember
from dpsim.contract.collectives.sent import Sent, cut
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream


class Scatter(CollectiveRules):
    __slots__ = ()

    rooted = even = True

    def gives(self, root: int | None, rank: int) -> bool:
        return rank == root

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        root = call[3]
        if root not in members:
            return members
        return (root,) if call[1] // len(members) and root != rank else ()

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        whole = sent.wires[sent.indices[call[3]]]
        return np.array(cut(whole, (), len(sent.wires))[index])

    def count(self, call: Call, index: int, members: int) -> int:
        return int(call[1] // members)

    @staticmethod
    def on_host(group: HostMember, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        piece = equal_size(group, "an array of as many for each", array.size)
        return group._collective(("scatter", array.size, dtype, group._root(root), None, ()), array, (piece,), site)

    @staticmethod
    def on_device(
        group: DeviceMember,
        output: Buffer,
        source: Buffer | None,
        root: int,
        stream: Stream,
        *,
        site: str | None = None,
    ) -> None:
        root = group._root(root)
        comes, given = group._count_of(output), output
        if group.ranks[group.index] == root:
            check_fits(group, "source", group._count_of(source), comes * group.size)
            given = source or output
        group._collective(("scatter", comes * group.size, output.dtype, root, None, ()), output, given, stream, site)


RULES = Scatter()
