"""A rank that reports each step tag which its program sets.

A process that dies after `rank.step = 5` leaves no record of step 5. So the rank writes the tag into the head of the
journal file, where the parent reads it (`journal_file`).

    rank.reach = file.reach
    rank.step = 5               # file.reach(5)
"""

from __future__ import annotations

from collections.abc import Callable

from dpsim.backend.calls.rank import JournaledRank
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import whole


def nowhere(step: int) -> None:
    """The report of a rank without a file: does nothing."""


class ReachingRank(JournaledRank):
    """The rank of a process. `reach`: called with each step tag that the program sets."""

    __slots__ = ("reach",)

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.reach: Callable[[int], None] = nowhere

    @property
    def step(self) -> int:
        return self.journal.step

    @step.setter
    def step(self, step: int) -> None:
        self.journal.step = known = whole(step, "the step", f"rank {self.rank}")
        self.reach(known)
