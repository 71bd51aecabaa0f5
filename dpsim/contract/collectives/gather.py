"""gather: the root receives the elements of all members, one after the other in the order of the group.

    input 1 2 | 10 20 | 100 200, root 1    ->    nothing | 1 2 10 20 100 200 | nothing

In a gather, all members send elements. The root waits for all, unless there are no elements. The other members receive
nothing and wait for no member. All members have to give equal op, count, dtype and root.

On a device only the root of a gather needs an output, so the others may pass None (`torch.distributed.gather`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.collectives.arguments import check_fits
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream


class Gather(CollectiveRules):
    __slots__ = ()

    rooted = even = shared = True

    def gets(self, root: int | None, rank: int) -> bool:
        return rank == root

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        return members if call[1] and call[3] == rank else ()

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return sent.gathered()

    def count(self, call: Call, index: int, members: int) -> int:
        return int(call[1] * members)

    @staticmethod
    def on_host(group: HostMember, array: HostArray, root: int, *, site: str | None = None) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        root = group._root(root)
        comes = array.size * group.size if group.ranks[group.index] == root else 0
        return group._collective(("gather", array.size, dtype, root, None, ()), array, (comes,), site)

    @staticmethod
    def on_device(
        group: DeviceMember,
        output: Buffer | None,
        source: Buffer,
        root: int,
        stream: Stream,
        *,
        site: str | None = None,
    ) -> None:
        root = group._root(root)
        brings, into = group._count_of(source), source
        if group.ranks[group.index] == root:
            check_fits(group, "output", group._count_of(output), brings * group.size)
            into = output or source
        group._collective(("gather", brings, source.dtype, root, None, ()), into, source, stream, site)


RULES = Gather()
