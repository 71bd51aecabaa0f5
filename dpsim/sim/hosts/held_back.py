"""Untimed: whether a schedule keeps an event waiting although the event could happen.

    held.look(steps, [one, other])      # every LOOK_STEPS choices: the events that can happen now
    held.any                            # whether one of them has waited for 1,000 choices

A run that dpsim cuts off has one of two reasons. If its schedule keeps an event waiting, such as the arrival of a
message, the schedule is unfair, and hardware does not continue so. If its schedule keeps no event waiting, the program
has had each event and does not end. So only the second kind leaves a question about the program
(`Exploration.unended`).

A time-out under way is an event that waits: in untimed mode, it passes only when nothing else can happen.

Prior art: fair schedules in CHESS (Musuvathi and Qadeer, "Fair Stateless Model Checking", 2008).
"""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.sim.graph.op import Op

LONG = 1_000
"""An event that waits for this number of choices is held back. In a run of less than 2,000 choices: for half of it."""


class HeldBack:
    """The events that can happen in a run, each with the number of the choice since when it can."""

    def __init__(self) -> None:
        self._steps = 0
        self._since: dict[Op, int] = {}

    def look(self, steps: int, waiting: Iterable[Op]) -> None:
        """Notes the events that can happen now, after `steps` choices."""
        self._steps, self._since = steps, {op: self._since.get(op, steps) for op in waiting}

    @property
    def any(self) -> bool:
        """Whether the schedule held an event back, as of the last look."""
        long = min(LONG, self._steps // 2)
        return any(self._steps - since >= long for since in self._since.values())
