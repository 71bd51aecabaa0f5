"""The interface between the simulated machine and a search over schedules: questions, answers, labels.

In untimed mode, without a clock, the machine asks a `Strategy` wherever real hardware could continue in several ways:

* `pick`: which of the enabled ops happens next. The machine asks only about ops with a footprint. An op that shares no
  resource with other ops happens at once;
* `draw`: a choice that is no op. The machine has one kind (`waits`): whether an op waits for peers that it need not
  wait for, such as a send for its receive.

A run has no choices besides `pick` and `draw`, so the same answers give the same run. An op has the same label in every
run, and no other op of a run has it. So a list of labels *is* a schedule, and a strategy recognizes an op in the next
run. Only this module has their grammar: `visit_label`, `numbered_label`, ... write labels; `actor`, `site` and `act`
read them. In a label, `rank 3` means the host thread "main"; for other threads it is `rank 3/NAME` (`host_word`).

    rank 3 engine.poll[2]         a call at a site; with a verb (rank 3 delivers box[2]), an op that follows from it
    rank 3 goes on #4             a repeated act of a rank, counted from 0
    rank 3 event 5 passes         an act that happens once
    dp #4                         a collective, when all members have arrived
    dp_cpu 0>1 #2                 a transfer, when both ranks have arrived
    rank 3 gives dp #4            in either, the read of rank 3's memory
    rank 3 dp #4                  rank 3's part, if it ends before all have arrived
    kill rank 3
    rank 3 dp #4: eager           a draw and its result
    rank 3 has kernels that raise the strategy knows this when the run begins: the first entry

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


EAGER, RENDEZVOUS = "eager", "rendezvous"
"""The answers to `waits`: the op does not wait, or waits."""

FAILING = "has kernels that raise"


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


# ---- labels, written


def host_word(rank: int, thread: str = "main") -> str:
    """Returns the name of a host thread in labels.

    >>> host_word(3), host_word(3, "ubatch.1"), visit_label(host_word(3, "ubatch.1"), "poll", 0)
    ('3', '3/ubatch.1', 'rank 3/ubatch.1 poll[0]')
    """
    return str(rank) if thread == "main" else f"{rank}/{thread}"


def visit_label(rank: int | str, site: str, ordinal: int, verb: str = "") -> str:
    """Returns the label of a rank's call at a site, or, with a verb, of an op that follows from this call.

    >>> visit_label(3, "engine.poll", 2), visit_label(3, "box", 2, "delivers")
    ('rank 3 engine.poll[2]', 'rank 3 delivers box[2]')
    """
    return f"rank {rank} {verb} {site}[{ordinal}]" if verb else f"rank {rank} {site}[{ordinal}]"


def own_label(rank: int | str, what: str) -> str:
    """Returns the label of an op that a rank does once.

    >>> own_label(3, "starts")
    'rank 3 starts'
    """
    return f"rank {rank} {what}"


def numbered_label(what: str, number: int, rank: int | str | None = None) -> str:
    """Returns a label with a number, for an op of a communicator or of a rank.

    >>> numbered_label("dp", 4), numbered_label("goes on", 4, rank=3)
    ('dp #4', 'rank 3 goes on #4')
    """
    return f"{what} #{number}" if rank is None else f"rank {rank} {what} #{number}"


def transfer_label(communicator: str, sender: int, receiver: int) -> str:
    """Returns sender and receiver: with a number (`numbered_label`) the label of an op, with a size the label of a
    draw.

    >>> numbered_label(transfer_label("dp_cpu", 0, 1), 2)
    'dp_cpu 0>1 #2'
    """
    return f"{communicator} {sender}>{receiver}"


def kill_label(rank: int) -> str:
    """Returns the label of a rank's death."""
    return f"kill rank {rank}"


def draw_word(label: str, option: str) -> str:
    """Returns a draw and its result, as an entry of a schedule.

    >>> draw_word("dp_cpu 0>1 of 8 bytes", "eager")
    'dp_cpu 0>1 of 8 bytes: eager'
    """
    return f"{label}: {option}"


def failing_word(rank: int) -> str:
    """Returns the entry of a schedule for a rank whose kernels raise.

    >>> failing_word(3)
    'rank 3 has kernels that raise'
    """
    return own_label(rank, FAILING)


# ---- labels, read


def actor(label: str) -> str:
    """Returns the actor of an op, by its label: "rank 3", or the communicator.

    >>> actor("rank 3 engine.poll[2]"), actor("dp #4")
    ('rank 3', 'dp')
    """
    first, _, rest = label.partition(" ")
    return f"{first} {rest.partition(' ')[0]}" if first == "rank" else first


def failing_rank(word: str) -> int | None:
    """Returns the rank of a `failing_word`; None for other entries.

    >>> failing_rank("rank 3 has kernels that raise"), failing_rank("rank 3 poll[0]")
    (3, None)
    """
    return int(word.split(" ")[1]) if word.endswith(f" {FAILING}") else None


def continuing_actor(label: str) -> str:
    """Returns the independent actor of this op. It is `actor`, except for messages, which do not wait for their sender.

    >>> [continuing_actor(label) for label in ("rank 3 engine.poll[2]", "rank 3 delivers wake[2]", "dp #4")]
    ['rank 3', 'rank 3 delivers wake', 'dp']
    """
    return site(label) if label.split(" ")[2:3] == ["delivers"] else actor(label)


def site(label: str) -> str:
    """Returns a label without its ordinal, the same for all calls at one site.

    >>> site("rank 3 engine.poll[2]"), site("dp #4")
    ('rank 3 engine.poll', 'dp')
    """
    return actor(label) if " #" in label else label.partition("[")[0]


def act(label: str) -> str:
    """Returns a label without its rank, the same for all ranks.

    >>> act("rank 3 engine.poll"), act("rank 3"), act("dp")
    ('engine.poll', 'rank 3', 'dp')
    """
    rank, _, rest = label.partition(" ")
    return (rest.partition(" ")[2] if rank == "rank" else "") or label
