"""Sleeps and planted delays in untimed mode: a lower bound for the time of what follows them.

In untimed mode, the strategy may pick the end of a sleep at any point, so its duration matters only to time-outs
(`dpsim.sim.graph.alarms`). Each sleep has a computed *end*: its duration, added to the latest end among the sleeps and
time-outs before it.

    sleeps.add(op, 100_000_000)         # the op is a sleep of 100 ms
    sleeps.clock(causes)                # the latest end among what is in these causes
    sleeps.late(causes, end)            # sleeps that have ended, not in these causes, and not before that end

If a run ends its sleeps early, the rest of the world was slow in that run; so the computed ends are lower bounds.
`causes` are bits that the strategy assigns to ops, equal in equal schedules. If a strategy assigns none, all hosts
share one clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from dpsim.sim.graph.op import Op


class Sleeps:
    """`under_way`: per sleep that has not ended, (end, causes); None before all ops before it have fired."""

    def __init__(self) -> None:
        self.under_way: dict[Op, tuple[int, int] | None] = {}
        self._unread: dict[Op, int] = {}  # the durations of sleeps that have not begun
        self._labels: set[str] = set()
        self._ended: list[tuple[int, int, str]] = []  # (end, bit, label), by end
        self._ends: list[tuple[int, int]] = []  # (end, bit) of the sleeps and time-outs that have ended, by end

    def add(self, op: Op, ns: int) -> None:
        """Registers a sleep of `ns`. Its label is a resource, so that time-outs can conflict with this sleep alone."""
        number = 2
        label = op.label
        while op.label in self._labels:  # several calls of one graph replay share an address
            op.label = f"{label} #{number}"
            number += 1
        self._labels.add(op.label)
        own = tuple(op.touches())
        op.footprint = (*own, (("sleep", op.label), "w"))
        self.under_way[op] = None
        self._unread[op] = ns

    def read(self) -> None:
        """Computes the ends of sleeps that have begun. Their causes are complete, without an order of the strategy."""
        for op, ns in list(self._unread.items()):
            if not op.pending:
                del self._unread[op]
                self.under_way[op] = self.clock(op.causes) + ns, op.causes

    @property
    def unread(self) -> bool:
        return bool(self._unread)

    def clock(self, causes: int) -> int:
        """Returns the latest end among the sleeps and time-outs in these causes."""
        return next((end for end, bit in reversed(self._ends) if causes & bit or not bit), 0)

    def passed(self, bit: int, end: int) -> None:
        """A sleep or a time-out has ended at `end`. `bit`: its own bit in causes."""
        insort(self._ends, (end, bit))

    def ended(self, op: Op, bit: int) -> None:
        """The strategy has picked the end of a sleep."""
        started = self.under_way.pop(op)
        assert started is not None
        insort(self._ended, (started[0], bit, op.label))
        self.passed(bit, started[0])

    def late(self, causes: int, end: int) -> int:
        """Returns the bits of the sleeps that have ended, are not in these causes, and end at `end` or later."""
        bits = 0
        for _, bit, _ in self._ended[bisect_left(self._ended, (end,)) :]:
            bits |= bit
        return bits & ~causes

    def touched(self, end: int) -> tuple[tuple[tuple[str, str], str], ...]:
        """Returns the resources of a time-out with this end: all sleeps that end at the same time or later."""
        labels = [label for _, _, label in self._ended[bisect_left(self._ended, (end,)) :]]
        labels += [op.label for op, started in self.under_way.items() if started is not None and started[0] >= end]
        return tuple((("sleep", label), "w") for label in labels)
