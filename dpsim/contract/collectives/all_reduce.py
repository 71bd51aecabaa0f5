"""all_reduce: every member receives the elementwise reduction of all members' elements, in place on a device.

    input 1 2 | 10 20 | 100 200    ->    111 222 | 111 222 | 111 222

Each member of an all_reduce waits for all members, unless there are no elements. All members have to give equal op,
count, dtype and reduction.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.collectives.reductions import reduction_name
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream
from dpsim.contract.ops import ReduceOp


class AllReduce(CollectiveRules):
    __slots__ = ()

    even = shared = reduces = True

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        return members if call[1] else ()

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return sent.reduced(call[4])

    @staticmethod
    def on_host(
        group: HostMember, array: HostArray, *, op: ReduceOp = "sum", site: str | None = None
    ) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        call = "all_reduce", array.size, dtype, None, reduction_name(op, dtype), ()
        return group._collective(call, array, array.shape, site)

    @staticmethod
    def on_device(
        group: DeviceMember, buffer: Buffer, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None
    ) -> None:
        call = "all_reduce", group._count_of(buffer), buffer.dtype, None, reduction_name(op, buffer.dtype), ()
        group._collective(call, buffer, buffer, stream, site)


RULES = AllReduce()
