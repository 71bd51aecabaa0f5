"""reduce_scatter: every member receives its piece of the elementwise reduction of all members' elements.

    input 1 2 3 | 10 20 30 | 100 200 300, sizes 2 0 1    ->    111 222 | nothing | 333

A member of a reduce_scatter that receives a piece waits for all members; a member without one waits for no member. All
members have to give equal op, count, dtype, reduction and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.collectives.arguments import check_fits, check_sizes, given_sizes
from dpsim.contract.collectives.reductions import reduction_name
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember
from dpsim.contract.collectives.sent import Sent, cut
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream
from dpsim.contract.ops import ReduceOp


class ReduceScatter(CollectiveRules):
    __slots__ = ()

    reduces = True

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        count, sizes, size = call[1], call[5], len(members)
        piece = sizes[members.index(rank)] if len(sizes) == size else count // size
        return members if piece else ()

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return cut(sent.reduced(call[4]), call[5], len(sent.wires))[index]

    def count(self, call: Call, index: int, members: int) -> int:
        return int(self.sizes(call, members).output[index])

    @staticmethod
    def on_host(
        group: HostMember,
        array: HostArray,
        *,
        op: ReduceOp = "sum",
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        whole = check_sizes(group, "sizes", sizes, array.size)
        call = "reduce_scatter", array.size, dtype, None, reduction_name(op, dtype), given_sizes(sizes)
        return group._collective(call, array, (whole[group.index],), site)

    @staticmethod
    def on_device(
        group: DeviceMember,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        op: ReduceOp = "sum",
        sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        brings = group._count_of(source)
        whole = check_sizes(group, "sizes", sizes, brings)
        check_fits(group, "source", brings, sum(whole))
        check_fits(group, "output", group._count_of(output), whole[group.index])
        call = "reduce_scatter", brings, source.dtype, None, reduction_name(op, source.dtype), given_sizes(sizes)
        group._collective(call, output, source, stream, site)


RULES = ReduceScatter()
