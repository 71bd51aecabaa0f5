"""reduce: the root receives the elementwise reduction of all members' elements, in place on a device.

    input 1 2 | 10 20 | 100 200, root 1    ->    1 2 | 111 222 | 100 200

In a reduce, all members send elements. The root waits for all, unless there are no elements. The other members receive
nothing: their memory does not change, and they wait for no member. All members have to give equal op, count, dtype,
root and reduction.

As NCCL does, the contract promises that the members besides the root keep their data. `torch.distributed.reduce` does
not promise that: gloo changes the buffer, so `real` passes it a copy.
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
