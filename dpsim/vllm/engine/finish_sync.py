"""The finish sync: what engines in lockstep send each other, how often, and what all of them conclude (2.4).

While a group runs, every iteration counts as a step. Some steps are sync points: all ranks reduce a few numbers, and
each learns whether the group goes on. Between two sync points all ranks go on without a message.

    Flag        one number: has unfinished work; MAX        source 003, 0.14 to 0.20
    PauseVotes  two: unfinished work, pause pending; SUM    0.24, and 0.33 with a sync point in the first step

    >>> sync = PauseVotes033(size=3, interval=16)
    >>> [step for step in range(1, 40) if sync.due(step)]
    [1, 16, 32]
    >>> sync.contribution(unfinished=False, pending_pause=True)
    (0, 1)
    >>> sync.verdict((0, 1))  # one of three wants to pause: the group goes on, so that the others can follow
    Verdict(running=True, consensus=False)
    >>> sync.verdict((0, 3))
    Verdict(running=False, consensus=True)

All of it is computed from the step and the reduced numbers, which are equal on all ranks (I-EL-3, I-EL-13).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

Op = Literal["max", "sum"]
Numbers = tuple[int, ...]


class Verdict(NamedTuple):
    """`running`: the group goes on; `consensus`: every rank has a pause pending."""

    running: bool
    consensus: bool


class FinishSync(ABC):
    """The finish sync of one group. `size`: ranks; `interval`: steps between two sync points."""

    op: ClassVar[Op]
    INTERVAL: ClassVar[int] = 32
    """Steps between two sync points, by default."""

    def __init__(self, size: int, interval: int) -> None:
        self.size = size
        self.interval = interval

    def due(self, step: int) -> bool:
        """Whether a step is a sync point; the first step of a wave is 1."""
        return step % self.interval == 0

    @abstractmethod
    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        """The numbers that a rank brings to the reduction, as int32."""

    @abstractmethod
    def verdict(self, total: Numbers) -> Verdict:
        """The conclusion from the reduced numbers."""


class FinishFlag(FinishSync):
    """Source 003 and 0.14: whether any rank has work. There are no pauses."""

    op = "max"

    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        return (int(unfinished),)

    def verdict(self, total: Numbers) -> Verdict:
        (unfinished,) = total
        return Verdict(unfinished > 0, False)


class PauseVotes(FinishSync):
    """0.24: how many ranks have work, and how many have a pause pending.

    If some ranks have a pause pending, the group runs until all have it (I-EL-9). If all have it, those with work still
    go on: they step, and the wave ends at a later sync.
    """

    op = "sum"

    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        return (int(unfinished), int(pending_pause))

    def verdict(self, total: Numbers) -> Verdict:
        unfinished, pausing = total
        return Verdict(unfinished > 0 or pausing % self.size != 0, pausing == self.size)


class PauseVotes033(PauseVotes):
    """0.33: the same, also in the first step of a wave, so that an idle pause costs one forward (A-26)."""

    INTERVAL = 16

    def due(self, step: int) -> bool:
        return step == 1 or super().due(step)
