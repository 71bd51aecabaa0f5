"""What a chooser of schedules sees, and what it has to answer: the seam between the untimed machine and exploration.

Where there is no time, the machine asks a `Strategy` wherever real hardware could go on in more than one way:

* `pick`: which of the enabled ops happens next. Only ops with a footprint are asked about; what touches nothing that
  another op touches happens at once;
* `draw`: a choice that is no op, such as whether a small send ends before it is received.

Nothing else is open: the same answers give the same run. Labels are addresses, equal in every run in which the op
exists, and no two ops of a run have the same. So a list of labels *is* a schedule, and what was learned of an op in one
run holds in the next.

A footprint is a tuple of (resource, mode), modes

* `r` and `w`: reads and writes. Two reads commute, all else conflicts;
* `a` and `l`: acquire and release of something finite. Two acquires conflict, and so do an acquire and a release; two
  releases commute.

`conflict` says so. What must come first because the other waits for it (the op before it on its stream, a
message for its receiver) is no conflict but an edge; of edges a strategy learns through `past`.

Prior art: Shuttle's Scheduler (`next_task` of runnable tasks), Mc SimGrid's transitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Footprint: TypeAlias = tuple[tuple[Any, str], ...]
"""(resource, mode) pairs; modes are r, w, a, l. A resource is any hashable value."""

Choose: TypeAlias = Callable[[str, Sequence[str]], int]
"""(what is chosen, labels of the options, never empty) -> index of the choice."""


class Candidate(Protocol):
    """An op that may happen next."""

    label: str
    past: int
    """Bits of what happened before, through edges and through what hosts learned. The machine carries bits from an op
    to all that comes after it; to set one is the strategy's business, when the op is picked."""

    def touches(self) -> Footprint:
        """Its footprint as it would happen now."""


class Strategy(ABC):
    """Answers the machine's questions, run after run."""

    @abstractmethod
    def pick(self, candidates: Sequence[Candidate]) -> int:
        """The index of the op that happens next. Never asked without candidates; asked even if there is just one."""

    @abstractmethod
    def draw(self, label: str, options: Sequence[str]) -> int:
        """The index of an option: the first is the ordinary one, the last the strictest, under which others wait
        longer."""

    def blocked(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027  # most strategies do not care
        """These acquires cannot have what they want now. Told before every pick, and at the end of the run."""


class ByLabel(Strategy):
    """One function of labels for both questions; ops are asked about as "op"."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return self.choose("op", [candidate.label for candidate in candidates])

    def draw(self, label: str, options: Sequence[str]) -> int:
        return self.choose(label, options)


class CutOff(Exception):
    """Raised by a strategy that has seen enough of a run: it ends here, and nobody is told how."""


def conflict(one: str, other: str) -> bool:
    """Whether two modes on the same resource have an order, which may be the other one in another run.

    >>> conflict("r", "w"), conflict("r", "r"), conflict("a", "l"), conflict("l", "l")
    (True, False, True, False)
    """
    return one != other or one in "wa"
