"""all_to_all: every member sends piece i to member i, and receives one piece from each member, in the order of the
group.

    input 1 2 | 10 20    ->    1 10 | 2 20

Each member of an all_to_all waits for the members that send it elements. All members have to give equal op and dtype.
Without sizes they also have to give equal counts. With sizes, the size that member i sends to j has to be the size that
j expects from i. `sizes` of a call lists the pieces to send, then those to receive. A recording may contain only the
first list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.contract.collectives.arguments import check_fits, check_sizes, equal_size, given_sizes
from dpsim.contract.collectives.rules import Call, CollectiveRules, DeviceMember, HostMember, Sizes, some
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream


class AllToAll(CollectiveRules):
    __slots__ = ()

    pairwise = True

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        sizes, size = call[5], len(members)
        return some(members, sizes[size:]) if len(sizes) == 2 * size else members if call[1] // size else ()

    def is_idle(self, call: Call) -> bool:
        return not (any(call[5]) if call[5] else call[1])

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        return np.concatenate([own[index] for own in sent.pieces()])

    def results(self, call: Call, sent: Sent) -> list[HostArray]:
        count, sizes, members = call[1], call[5], len(sent.wires)
        if sizes or count % members:
            return super().results(call, sent)
        matrix = np.concatenate(sent.wires).reshape(members, members, count // members)
        return [*matrix.transpose(1, 0, 2).reshape(members, count)]

    def signature(self, call: Call, index: int) -> Call:
        """Returns what has to be equal on all members. With sizes, the ledger check compares the pieces in place of the
        counts.
        """
        op, _, dtype, root, reduce, sizes = call
        return (op, 0, dtype, root, reduce, ()) if sizes else call

    def sizes(self, call: Call, members: int) -> Sizes:
        equal = (call[1] // members,) * members
        return Sizes(call[5][:members] or equal, call[5][members:] or equal)

    def count(self, call: Call, index: int, members: int) -> int:
        return sum(self.sizes(call, members).output)

    @staticmethod
    def on_host(
        group: HostMember,
        array: HostArray,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> HostWork[HostArray]:
        dtype = group._dtype_of(array, site or group.name)
        sizes: tuple[int, ...] = ()
        come = array.size if output_sizes is None else sum(given_sizes(output_sizes))
        if source_sizes is None and output_sizes is None:
            equal_size(group, "source_sizes", come)
        else:
            go = check_sizes(group, "source_sizes", source_sizes, array.size)
            sizes = (*go, *check_sizes(group, "output_sizes", output_sizes, come))
        call = "all_to_all", array.size, dtype, None, None, sizes
        return group._collective(call, array, (come,), site)

    @staticmethod
    def on_device(
        group: DeviceMember,
        output: Buffer,
        source: Buffer,
        stream: Stream,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> None:
        brings, comes = group._count_of(source), group._count_of(output)
        sizes: tuple[int, ...] = ()
        if source_sizes is None and output_sizes is None:
            equal_size(group, "source_sizes", brings)
            if comes != brings:
                equal_size(group, "output_sizes", comes)
        else:
            go = check_sizes(group, "source_sizes", source_sizes, brings)
            check_fits(group, "source", brings, sum(go))
            come_from = check_sizes(group, "output_sizes", output_sizes, comes)
            check_fits(group, "output", comes, sum(come_from))
            sizes = (*go, *come_from)
        call = "all_to_all", brings, source.dtype, None, None, sizes
        group._collective(call, output, source, stream, site)


RULES = AllToAll()
