"""reduce: the root gets the elementwise reduction of what all bring, in place on a device.

    brings 1 2 | 10 20 | 100 200, root 1    ->    1 2 | 111 222 | 100 200

All give. The root waits for all, unless there are no elements. The others get nothing: they keep what they bring and
wait for no member. Op, count, dtype, root and reduction have to match.

The contract promises that the other members keep their data, as NCCL does; `torch.distributed.reduce` promises nothing.
gloo changes the buffer, so `real` gives it a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.collectives.reductions import reduction_name
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream
from dpsim.contract.ops import ReduceOp


class Reduce(CollectiveRules):
    __slots__ = ()

    rooted = even = shared = reduces = True

    def gets(self, root: int | None, rank: int) -> bool:
        return rank == root

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        return members if call[1] and call[3] == rank else ()

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return sent.reduced(call[4])

    @staticmethod
    def on_host(
        group: HostMember, array: HostArray, root: int, *, op: ReduceOp = "sum", site: str | None = None
    ) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        call = "reduce", array.size, dtype, group._root(root), reduction_name(op, dtype), ()
        return group._collective(call, array, array.shape, site)

    @staticmethod
    def on_device(
        group: DeviceMember, buffer: Buffer, root: int, stream: Stream, *, op: ReduceOp = "sum", site: str | None = None
    ) -> None:
        root = group._root(root)
        call = "reduce", group._count_of(buffer), buffer.dtype, root, reduction_name(op, buffer.dtype), ()
        group._collective(call, buffer, buffer, stream, site)


RULES = Reduce()
