"""Sleeps and planted delays where there is no time: how late what lies behind them is, at least.

Such an op ends whenever the strategy picks it, so how long it takes orders nothing. It matters to time-outs alone: one
may pass before a sleep that lasts as long, and before all that lies behind that sleep. So each sleep has an *end*: its
own time, added to the latest end among the sleeps and time-outs that it comes after. All else takes no time.

    sleeps.add(op, 100_000_000)         # the op is a sleep of 100 ms
    sleeps.clock(causes)                # the latest end among what is in these causes
    sleeps.late(causes, end)            # sleeps that have ended, not in these causes, and not before that end

A run that ends its sleeps early is one in which the rest of the world was slow, so ends bound the times from below.
Causes are the strategy's bits, and equal in equal schedules; a chooser that sets none has one clock for all.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from dpsim.sim.graph.op import Op


class Sleeps:
    """Of one run. `under_way`: sleeps that have not ended, each with its end and its causes where it has begun."""

    def __init__(self) -> None:
        self.under_way: dict[Op, tuple[int, int] | None] = {}
        self._unread: dict[Op, int] = {}  # of those that have not begun how long they take
        self._labels: set[str] = set()
        self._ended: list[tuple[int, int, str]] = []  # (end, bit, label), by end
        self._latest: list[tuple[int, int]] = []  # (bit, end) of sleeps and time-outs that none of these comes after

    def add(self, op: Op, ns: int) -> None:
        """The op takes so long. Two time-outs and no sleeps conflict with it, so it is a resource by its label."""
        number = 2
        label = op.label
        while op.label in self._labels:  # several calls of one replay have one address
            op.label = f"{label} #{number}"
            number += 1
        self._labels.add(op.label)
        own = tuple(op.touches())
        op.footprint = (*own, (("sleep", op.label), "w"))
        self.under_way[op] = None
        self._unread[op] = ns

    def read(self) -> None:
        """Note of those that have begun when they end: their causes are complete, and no order has added to them."""
        for op, ns in list(self._unread.items()):
            if not op.pending:
                del self._unread[op]
                self.under_way[op] = self.clock(op.causes) + ns, op.causes

    @property
    def unread(self) -> bool:
        return bool(self._unread)

    def clock(self, causes: int) -> int:
        """The latest end among sleeps and time-outs in these causes."""
        return max((end for bit, end in self._latest if causes & bit or not bit), default=0)

    def passed(self, op: Op, bit: int, end: int) -> None:
        """A sleep or a time-out has ended. `bit`: its own in causes."""
        self._latest = [one for one in self._latest if not op.causes & one[0]]
        self._latest.append((bit, end))

    def ended(self, op: Op, bit: int) -> None:
        """A sleep was picked."""
        begun = self.under_way.pop(op)
        assert begun is not None
        insort(self._ended, (begun[0], bit, op.label))
        self.passed(op, bit, begun[0])

    def late(self, causes: int, end: int) -> int:
        """The bits of those that have ended, do not lie in these causes, and do not end before that."""
        bits = 0
        for _, bit, _ in self._ended[bisect_left(self._ended, (end,)) :]:
            bits |= bit
        return bits & ~causes

    def touched(self, end: int) -> tuple[tuple[tuple[str, str], str], ...]:
        """What a time-out touches that is up then: the sleeps that do not end before."""
        labels = [label for _, _, label in self._ended[bisect_left(self._ended, (end,)) :]]
        labels += [op.label for op, begun in self.under_way.items() if begun is not None and begun[0] >= end]
        return tuple((("sleep", label), "w") for label in labels)
