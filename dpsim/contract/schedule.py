"""The interface between the untimed machine and exploration: what a chooser of schedules sees, and what it answers.

In the untimed mode, the machine asks a `Strategy` wherever real hardware could continue in more than one way:

* `pick`: which of the enabled ops happens next. The machine asks only about ops with a footprint; an op that touches
  nothing which another op touches happens at once;
* `draw`: a choice that is no op. The machine has one kind (`waits`): whether an op waits for peers that it need not
  wait for, such as a send for its receive.

The run has no other choice: the same answers give the same run. Labels are addresses. They are equal in every run in
which the op exists, and differ for two ops of a run. So a list of labels *is* a schedule, and knowledge of an op in one
run holds in the next. Only this module has their grammar: `visit_label`, `numbered_label`, ... write labels; `actor`,
`site` and `act` read them. A rank's number means its host thread "main"; other threads' names follow it (`host_word`).

    rank 3 engine.poll[2]         a visit of a site; with a verb, rank 3 delivers box[2]
    rank 3 goes on #4             what a rank does for the fourth time after the first
    rank 3 event 5 passes         what happens once
    dp #4                         a collective, when all have come
    dp_cpu 0>1 #2                 a transfer, when both have
    rank 3 gives dp #4            in either, what goes out of rank 3's memory
    rank 3 dp #4                  its part, where that ends before all have come
    kill rank 3
    rank 3 dp #4: eager           a draw and what came of it
    rank 3 has kernels that raise as is known when the run begins: before all else

A footprint is a tuple of (resource, mode), modes

* `r` and `w`: reads and writes. Two reads commute, all else conflicts;
* `a` and `l`: acquire and release of something finite. Two acquires conflict, and so do an acquire and a release; two
  releases commute.

`conflict` has this rule. If one op waits for another (the op before it on its stream, a receiver for its message), this
is an edge and no conflict. A strategy learns of edges through `causes`.

Prior art: Shuttle's Scheduler (`next_task` of runnable tasks), Mc SimGrid's transitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeAlias

Footprint: TypeAlias = tuple[tuple[Any, str], ...]
"""(resource, mode) pairs; modes are r, w, a, l. A resource is any hashable value."""

TIME = ("time",)
"""The resource that time-outs write, and no other op."""

Choose: TypeAlias = Callable[[str, Sequence[str]], int]
"""(what is chosen, labels of the options, never empty) -> index of the choice."""


class Candidate(Protocol):
    """An op that may happen next."""

    label: str
    causes: int
    """Bits of the ops that happened before, through edges and through what hosts learned. The machine carries bits from
    an op to all later ops; the strategy sets a bit when it picks the op.
    """

    def touches(self) -> Footprint:
        """The footprint of the op if it happened now."""

    @property
    def disables(self) -> bool:
        """Whether the op disables others, and not only ops that it conflicts with (a kill). A strategy picks such an op
        last, so that a run first shows the ops that it would disable.
        """


class OptionalWait(Protocol):
    """An op that may wait until all its peers have arrived, and need not. Its answers, except for its label, are known
    at the end of the run.
    """

    label: str
    bit: int
    """All later ops carry it in their causes, whether the op waited or not. None at first; the strategy sets it when it
    answers.
    """

    @property
    def ended(self) -> bool:
        """Whether the op ended, and no kill hit later the rank that continued then."""

    @property
    def met(self) -> int | None:
        """The causes of the last peer's arrival; None if not all arrived."""


EAGER, RENDEZVOUS = "eager", "rendezvous"
"""The answers to `waits`: the op does not wait, or waits."""

FAILING = "has kernels that raise"


class Strategy(ABC):
    """A strategy answers the machine's questions, run after run."""

    @abstractmethod
    def pick(self, candidates: Sequence[Candidate]) -> int:
        """The index of the op that happens next. There is at least one candidate, and the machine asks even for one."""

    @abstractmethod
    def draw(self, label: str, options: Sequence[str]) -> int:
        """The index of an option. The first is the ordinary one; under the last, the strictest, others wait longer."""

    def waits(self, wait: OptionalWait) -> bool:
        """Whether an op waits without need."""
        return self.draw(wait.label, (EAGER, RENDEZVOUS)) == 1

    def blocked(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027  # most strategies do not care
        """The machine reports the acquires that get no resource now, before every pick and at the end of the run."""

    def lost(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027
        """The machine reports ops that could happen now if other ops had not come first. Their actor died, the message
        for which they wait arrived, another offer was taken, or a shorter time-out passed.
        """

    def failing(self) -> Collection[int]:
        """Ranks with a kernel that raises in some run of this world. The machine asks when a run begins. For these
        ranks, it asks about all device work and about the stop of the device; other devices stop at once.
        """
        return ()

    def raised(self, rank: int) -> None:  # noqa: B027
        """A kernel of another rank raised, so this run shows one order of several."""


class ByLabel(Strategy):
    """One function of labels answers both questions; it gets "op" for ops."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return self.choose("op", [candidate.label for candidate in candidates])

    def draw(self, label: str, options: Sequence[str]) -> int:
        return self.choose(label, options)


class RunStopped(Exception):
    """A strategy raises it: the run ends here, and no check judges it. `run`: the run so far, if it is known."""

    run: Any = None


class CutOff(RunStopped):
    """A strategy needs no more of a run."""


class Outgrown(CutOff):
    """A run exceeds its bound on records or memory. Other runs would, too, and each takes long, so the search begins
    none.
    """


class OutOfTime(CutOff):
    """The time for all runs ended within one. There is no verdict of this run, nor of those that it represents."""


class Unrepeatable(RunStopped, RuntimeError):
    """A repeated run differs: some part of it is not a function of the schedule."""


def conflict(one: str, other: str) -> bool:
    """Whether two modes on the same resource conflict, so that another run may have the other order.

    >>> conflict("r", "w"), conflict("r", "r"), conflict("a", "l"), conflict("l", "l")
    (True, False, True, False)
    """
    return one != other or one in "wa"


# ---- labels, written


def host_word(rank: int, thread: str = "main") -> str:
    """A host thread as labels name it.

    >>> host_word(3), host_word(3, "ubatch.1"), visit_label(host_word(3, "ubatch.1"), "poll", 0)
    ('3', '3/ubatch.1', 'rank 3/ubatch.1 poll[0]')
    """
    return str(rank) if thread == "main" else f"{rank}/{thread}"


def visit_label(rank: int | str, site: str, ordinal: int, verb: str = "") -> str:
    """The act of a rank at a visit of a site, or a consequence of that act.

    >>> visit_label(3, "engine.poll", 2), visit_label(3, "box", 2, "delivers")
    ('rank 3 engine.poll[2]', 'rank 3 delivers box[2]')
    """
    return f"rank {rank} {verb} {site}[{ordinal}]" if verb else f"rank {rank} {site}[{ordinal}]"


def own_label(rank: int | str, what: str) -> str:
    """An act that a rank does once.

    >>> own_label(3, "starts")
    'rank 3 starts'
    """
    return f"rank {rank} {what}"


def numbered_label(what: str, number: int, rank: int | str | None = None) -> str:
    """What a group does, or a rank for itself, with its number.

    >>> numbered_label("dp", 4), numbered_label("goes on", 4, rank=3)
    ('dp #4', 'rank 3 goes on #4')
    """
    return f"{what} #{number}" if rank is None else f"rank {rank} {what} #{number}"


def transfer_label(communicator: str, sender: int, receiver: int) -> str:
    """Who sends to whom: with a number (`numbered_label`) an op, with a size the label of a draw.

    >>> numbered_label(transfer_label("dp_cpu", 0, 1), 2)
    'dp_cpu 0>1 #2'
    """
    return f"{communicator} {sender}>{receiver}"


def kill_label(rank: int) -> str:
    """A rank's death."""
    return f"kill rank {rank}"


def draw_word(label: str, option: str) -> str:
    """A draw and what came of it, as a word of a schedule.

    >>> draw_word("dp_cpu 0>1 of 8 bytes", "eager")
    'dp_cpu 0>1 of 8 bytes: eager'
    """
    return f"{label}: {option}"


def failing_word(rank: int) -> str:
    """The word of a schedule that says that kernels of a rank raise.

    >>> failing_word(3)
    'rank 3 has kernels that raise'
    """
    return own_label(rank, FAILING)


# ---- labels, read


def actor(label: str) -> str:
    """The actor of an op, by its label: "rank 3", or the communicator.

    >>> actor("rank 3 engine.poll[2]"), actor("dp #4")
    ('rank 3', 'dp')
    """
    first, _, rest = label.partition(" ")
    return f"{first} {rest.partition(' ')[0]}" if first == "rank" else first


def failing_rank(word: str) -> int | None:
    """The rank of a `failing_word`; None for other words.

    >>> failing_rank("rank 3 has kernels that raise"), failing_rank("rank 3 poll[0]")
    (3, None)
    """
    return int(word.split(" ")[1]) if word.endswith(f" {FAILING}") else None


def goes_on(label: str) -> str:
    """The independent actor of this op. It is `actor`, except for messages, which do not wait for their sender.

    >>> goes_on("rank 3 engine.poll[2]"), goes_on("rank 3 delivers wake[2]"), goes_on("dp #4")
    ('rank 3', 'rank 3 delivers wake', 'dp')
    """
    return site(label) if label.split(" ")[2:3] == ["delivers"] else actor(label)


def site(label: str) -> str:
    """A label without its ordinal: all visits of a place in the source count as one.

    >>> site("rank 3 engine.poll[2]"), site("dp #4")
    ('rank 3 engine.poll', 'dp')
    """
    return actor(label) if " #" in label else label.partition("[")[0]


def act(label: str) -> str:
    """A label without its rank: the act of any rank.

    >>> act("rank 3 engine.poll"), act("rank 3"), act("dp")
    ('engine.poll', 'rank 3', 'dp')
    """
    rank, _, rest = label.partition(" ")
    return (rest.partition(" ")[2] if rank == "rank" else "") or label
