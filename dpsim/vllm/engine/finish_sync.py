"""The finish sync: how engines in lockstep agree whether the group continues to run (specification 2.4).

At a sync point, engines reduce a few numbers; between two, all go on without a message. Step and numbers are equal on
all, and the rules read nothing else, so the verdict is equal, too (I-EL-3, I-EL-13). The releases reduce different
numbers:

    FinishFlag   one number: has unfinished work; MAX        source 003, 0.14 to 0.20
    PauseVotes   two: unfinished work, pause pending; SUM    0.24, and 0.33 with a sync point in the first step

    >>> sync = PauseVotes033(size=3, interval=16)
    >>> [step for step in range(1, 40) if sync.due(step)]
    [1, 16, 32]
    >>> sync.contribution(unfinished=False, pending_pause=True)
    (0, 1)
    >>> sync.verdict((0, 1))  # one of three wants to pause: the group goes on, so that the others can follow
    Verdict(running=True, consensus=False)
    >>> sync.verdict((0, 3))
    Verdict(running=False, consensus=True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

Op = Literal["max", "sum"]
Numbers = tuple[int, ...]


class Verdict(NamedTuple):
    """`running`: the group continues. `consensus`: every rank has a pause pending."""

    running: bool
    consensus: bool


class FinishSync(ABC):
    """The finish sync of a group. `size`: the number of engines. `interval`: the steps between two sync points."""

    op: ClassVar[Op]
    INTERVAL: ClassVar[int] = 32
    """The default for the steps between two sync points."""

    def __init__(self, size: int, interval: int) -> None:
        self.size = size
        self.interval = interval

    def due(self, step: int) -> bool:
        """Whether a step is a sync point. The first step of a wave has the number 1."""
        return step % self.interval == 0

    @abstractmethod
    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        """The numbers that a rank passes to the reduction, as int32."""

    @abstractmethod
    def verdict(self, total: Numbers) -> Verdict:
        """The verdict that follows from the reduced numbers."""


class FinishFlag(FinishSync):
    """Source page 003 and release 0.14: the group runs if any rank has work. There are no pauses."""

    op = "max"

    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        return (int(unfinished),)

    def verdict(self, total: Numbers) -> Verdict:
        (unfinished,) = total
        return Verdict(unfinished > 0, False)


class PauseVotes(FinishSync):
    """Release 0.24: the ranks count how many have work, and how many have a pause pending.

    If only some ranks have a pause pending, the group runs until all have (invariant I-EL-9). If all have and some
    ranks have work, the group also runs on, and the wave ends at a later sync.
    """

    op = "sum"

    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        return (int(unfinished), int(pending_pause))

    def verdict(self, total: Numbers) -> Verdict:
        unfinished, pausing = total
        return Verdict(unfinished > 0 or pausing % self.size != 0, pausing == self.size)


class PauseVotes033(PauseVotes):
    """Release 0.33: the first step of a wave syncs, so a pause of an idle group needs one forward (A-26)."""

    INTERVAL = 16

    def due(self, step: int) -> bool:
        return step == 1 or super().due(step)
