"""Edges between ops, the only source of order; and marks, bits by which an op or host records which device ops came
before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.sim.graph.lives import Lives
from dpsim.sim.graph.op import Op


class Edges(Lives):
    """The part of a machine that adds edges and marks."""

    timed: bool
    _marked = 0

    def edge(self, before: Op | None, after: Op) -> None:
        """Orders `after` behind `before`: it cannot start before `before` has fired."""
        if before is None:
            return
        if before.at < 0:
            after.pending += 1
            if before.after is None:
                before.after = after
            elif before.more is None:
                before.more = [after]
            else:
                before.more.append(after)
        elif not self.timed:
            after.seen_marks |= before.seen_marks
            after.causes |= before.causes

    def edges(self, before: Sequence[Op], after: Op) -> None:
        """Adds an edge from each op in `before`. It repeats `edge` for speed, since most edges are added here."""
        for op in before:
            if op.at < 0:
                after.pending += 1
                if op.after is None:
                    op.after = after
                elif op.more is None:
                    op.more = [after]
                else:
                    op.more.append(after)
            elif not self.timed:
                after.seen_marks |= op.seen_marks
                after.causes |= op.causes

    def mark(self, op: Op) -> int:
        """Untimed: returns the bit in `seen_marks` of each op behind this device op, and of each host that knows it."""
        if not (op.own_mark or self.timed):
            op.own_mark = 1 << self._marked
            op.seen_marks |= op.own_mark
            self._marked += 1
        return op.own_mark
