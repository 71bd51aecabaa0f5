"""A machine for programs whose ranks abort communicators. It records which ops come after device work that an abort
ended.

If a rank aborts a communicator, its part of a collective ends without a result. The next kernels of the stream compute
with whatever the buffers contain. So a host that waits for such a kernel must get an error and no result.

An op is *broken* for the rank that aborted if a path of edges leads to it from the aborted part. An op that receives
data from this rank is not broken for other ranks.

    machine.break_off(over, rank=1)             # the stream of rank 1 continues after the op `over`
    machine.is_broken(op, rank=1)               # whether `op` comes after `over`
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Kill
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op


class AbortingMachine(Machine):
    """The machine of programs with `aborts = True`, because tracking makes each edge slower."""

    def __init__(
        self,
        strategy: Strategy | None,
        kills: Sequence[Kill],
        keep_order: bool,
        memory: bool,
        dying: Collection[int],
    ) -> None:
        super().__init__(strategy, kills, keep_order, memory, dying, True)
        self._behind: dict[Op, int] = {}  # for each op, the ranks whose aborted parts lie before it, as bits

    def break_off(self, over: Op, rank: int) -> None:
        self._spread(over, 1 << rank)

    def is_broken(self, op: Op, rank: int) -> bool:
        return bool(self._behind.get(op, 0) >> rank & 1)

    def edge(self, before: Op | None, after: Op) -> None:
        super().edge(before, after)
        if before is not None:
            self.inherit(before, after)

    def inherit(self, before: Op, after: Op) -> None:
        if before in self._behind:
            self._spread(after, self._behind[before])

    def edges(self, before: Sequence[Op], after: Op) -> None:
        for op in before:
            self.edge(op, after)

    def _spread(self, op: Op, ranks: int) -> None:
        behind, reached = self._behind, [op]
        while reached:
            one = reached.pop()
            if behind.get(one, 0) | ranks != behind.get(one, 0):
                behind[one] = behind.get(one, 0) | ranks
                reached += [after for after in (one.after, *(one.more or ())) if after is not None]
