"""all_gather: every member receives the elements of all members, one after the other in the order of the group.

    input 1 2 | nothing | 3, sizes 2 0 1    ->    1 2 3 | 1 2 3 | 1 2 3

Each member of an all_gather waits for the members that send elements. All members have to give equal op, dtype and
sizes. Without sizes they also have to give equal counts; with sizes, each member sends its own count.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.collectives.arguments import check_fits, check_sizes, given_sizes
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember, Sizes, some
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream


class AllGather(CollectiveRules):
    __slots__ = ()

    shared = True

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        count, sizes = call[1], call[5]
        return some(members, sizes) if len(sizes) == len(members) else members if count else ()

    def is_idle(self, call: Call) -> bool:
        return not (any(call[5]) if call[5] else call[1])

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return sent.gathered()

    def signature(self, call: Call, index: int) -> Call:
        """Returns what has to be equal on all members. With sizes, their sum replaces the member's own count."""
        op, count, dtype, root, reduce, sizes = call
        if index < len(sizes) and count == sizes[index]:
            count = sum(sizes)
        return op, count, dtype, root, reduce, sizes

    def sizes(self, call: Call, members: int) -> Sizes:
        pieces = call[5] if len(call[5]) == members else (call[1],) * members
        return Sizes(pieces, pieces)

    def count(self, call: Call, index: int, members: int) -> int:
        return sum(self.sizes(call, members).output)

    @staticmethod
    def on_host(
        group: HostMember, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None
    ) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        whole = check_sizes(group, "sizes", sizes, array.size * group.size)
        own = whole[group.index]
        if own != array.size:
            raise ValueError(f"{group.name}: sizes say {own} elements of this rank, it brings {array.size}")
        call = "all_gather", array.size, dtype, None, None, given_sizes(sizes)
        return group._collective(call, array, (sum(whole),), site)

    @staticmethod
    def on_device(
        group: DeviceMember,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        brings = group._count_of(source)
        whole = check_sizes(group, "sizes", sizes, brings * group.size)
        check_fits(group, "source", brings, whole[group.index])
        check_fits(group, "output", group._count_of(output), sum(whole))
        call = "all_gather", brings, source.dtype, None, None, given_sizes(sizes)
        group._collective(call, output, source, stream, site)


RULES = AllGather()
