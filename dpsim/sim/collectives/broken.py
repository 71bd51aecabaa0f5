"""A machine whose ranks abort communicators: it knows what lies behind work of a device that was broken off.

A stream goes on behind a part that its rank has broken off, and computes with whatever is there. So a host that waits
for something behind it must not take that for a result. An op lies behind the part if edges lead to it, whenever the
machine makes those edges. Other ranks do not count, though they may receive what the stream computed.

    machine.break_off(over, rank=1)             # `over`: what the stream of rank 1 goes on behind
    machine.is_broken(op, rank=1)               # whether `op` comes after it
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Kill
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op


class AbortingMachine(Machine):
    """Made only for programs that say `aborts = True`: edges are what a run makes most of."""

    def __init__(
        self,
        strategy: Strategy | None,
        kills: Sequence[Kill],
        keep_order: bool,
        memory: bool,
        dying: Collection[int],
    ) -> None:
        super().__init__(strategy, kills, keep_order, memory, dying, True)
        self._behind: dict[Op, int] = {}  # the ranks whose broken parts lie before it, as bits

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
