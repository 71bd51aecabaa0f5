"""The interface between the simulated machine and a search over schedules: questions, answers, labels.

In untimed mode, without a clock, the machine asks a `Strategy` wherever real hardware could continue in several ways:

* `pick`: which of the enabled ops happens next. The machine asks only about ops with a footprint. An op that shares no
  resource with other ops happens at once;
* `draw`: a choice that is no op. The machine has one kind (`waits`): whether an op waits for peers that it need not
  wait for, such as a send for its receive.

A run has no choices besides `pick` and `draw`, so the same answers give the same run. An op has the same label in every
run, and no other op of a run has it. So a list of labels *is* a schedule, and a strategy recognizes an op in the next
run. A label is the text of an event (`dpsim.contract.events`).

A footprint lists the resources of an op, as (resource, mode). The modes are

* `r` and `w`: reads and writes. Two reads commute; a write conflicts with a read and with another write;
* `a` and `l`: acquire and release of a finite resource. Two acquires conflict, and so do
  an acquire and a release; two releases commute.

The function `conflict` decides by these modes. If one op has to wait for another, such as a receiver for its message,
this is an edge and no conflict. A strategy sees edges through `causes`.

Prior art: Shuttle's Scheduler (`next_task` of runnable tasks), Mc SimGrid's transitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeAlias

from dpsim.contract.events import EAGER, RENDEZVOUS

Footprint: TypeAlias = tuple[tuple[Any, str], ...]
"""(resource, mode) pairs. Modes are r, w, a, l (read, write, acquire, release). A resource is any hashable value."""

TIME = ("time",)
"""The resource that time-outs write, and no other op."""

Choose: TypeAlias = Callable[[str, Sequence[str]], int]
"""(what the machine asks, labels of the options, never empty) -> index of the choice."""


class Candidate(Protocol):
    """An op that may happen next."""

    label: str
    causes: int
    """Bits of the ops that come before this one, by edges or because its host learned of them. The machine passes bits
    from an op to all later ops; the strategy sets the bit of an op when it picks it.
    """

    def touches(self) -> Footprint:
        """Returns the footprint of the op if it happened now."""

    @property
    def disables(self) -> bool:
        """Whether the op may disable ops that it does not conflict with, as a kill does. A strategy picks such an op
        last, so that a run first shows the ops that it would disable.
        """


class OptionalWait(Protocol):
    """An op that may wait until all its peers have arrived, and need not. Its properties are final as a run ends."""

    label: str
    bit: int
    """All later ops have this bit in their causes, whether the op waited or not. The strategy sets it; 0 before."""

    @property
    def counts(self) -> bool:
        """Whether the other answer may show something new."""

    @property
    def ended(self) -> bool:
        """Whether the op ended, and no later kill hit the rank that continued after it."""

    @property
    def met(self) -> int | None:
        """Returns the causes of the last peer's arrival; None if not all arrived."""


class Strategy(ABC):
    """A strategy answers the machine's questions, in one run after another."""

    @abstractmethod
    def pick(self, candidates: Sequence[Candidate]) -> int:
        """Returns the index of the op that happens next. The machine asks even if there is only one candidate."""

    @abstractmethod
    def draw(self, label: str, options: Sequence[str]) -> int:
        """Returns the index of an option. The first is the usual one; the last is the strictest, others wait
        longest.
        """

    def waits(self, wait: OptionalWait) -> bool:
        """Returns whether an op waits although it need not."""
        return self.draw(wait.label, (EAGER, RENDEZVOUS)) == 1

    def blocked(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027  # most strategies ignore this
        """The machine reports acquires whose resource is not free, before every pick and at the end of the run."""

    def lost(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027
        """The machine reports ops that could happen now if another op had not been first. For example, their rank died,
        their message arrived, a receive took another offer, or a shorter time-out passed.
        """

    def failing(self) -> Collection[int]:
        """Returns the ranks with a kernel that raised in some run. The machine asks when a run begins. For these ranks,
        the strategy picks all device work and the stop of the device; other devices stop at once.
        """
        return ()

    def raised(self, rank: int) -> None:  # noqa: B027
        """A kernel of a further rank raised, so this run shows only one of several orders of the stop."""


class ByLabel(Strategy):
    """A strategy made of one function of labels. For ops, its first argument is "op"."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return self.choose("op", [candidate.label for candidate in candidates])

    def draw(self, label: str, options: Sequence[str]) -> int:
        return self.choose(label, options)


class RunStopped(Exception):
    """Ends a run early; no check judges it. A strategy raises it. `run`: the run so far, if known. `fair`: the schedule
    kept no event waiting, as far as the machine knows.
    """

    run: Any = None
    fair = False


class CutOff(RunStopped):
    """A strategy needs no more of this run."""


class Outgrown(CutOff):
    """A run exceeds its bound on records or memory. Other runs would, too, so the search begins no further run."""


class OutOfTime(CutOff):
    """The time limit of the search passed. There is no verdict about this run and the runs that it represents."""


class Unrepeatable(RunStopped, RuntimeError):
    """A repeated run differs from the first: some part of it does not depend on the schedule alone."""


def conflict(one: str, other: str) -> bool:
    """Whether two modes on the same resource conflict, so that a search has to try both orders.

    >>> conflict("r", "w"), conflict("r", "r"), conflict("a", "l"), conflict("l", "l")
    (True, False, True, False)
    """
    return one != other or one in "wa"
