"""What a chooser of schedules sees, and what it has to answer: the seam between the untimed machine and exploration.

Where there is no time, the machine asks a `Strategy` wherever real hardware could go on in more than one way:

* `pick`: which of the enabled ops happens next. Only ops with a footprint are asked about; what touches nothing that
  another op touches happens at once;
* `draw`: a choice that is no op. The machine has one kind of them: whether an op that need not wait for some of its
  peers does so all the same (`waits`), such as a send for its receive.

Nothing else is open: the same answers give the same run. Labels are addresses, equal in every run in which the op
exists, and no two ops of a run have the same. So a list of labels *is* a schedule, and what was learned of an op in one
run holds in the next. Their grammar is here and nowhere else: `visit_label`,
`numbered_label`, ... write labels; `actor`, `site` and `act` read them. A rank's number stands for its host thread
"main"; any other thread is named after it (`host_word`).

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

`conflict` says so. What must come first because the other waits for it (the op before it on its stream, a
message for its receiver) is no conflict but an edge; of edges a strategy learns through `causes`.

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
    """Bits of what happened before, through edges and through what hosts learned. The machine carries bits from an op
    to all that comes after it; to set one is the strategy's business, when the op is picked."""

    def touches(self) -> Footprint:
        """Its footprint as it would happen now."""

    @property
    def disables(self) -> bool:
        """Whether it takes the chance to happen from others, and not only from those that it conflicts with (a kill).
        Such an op comes last, so that a run shows first what it would take away."""


class OptionalWait(Protocol):
    """An op that need not wait until all its peers have come, and may. What it says beside its label is known when the
    run has ended.
    """

    label: str
    bit: int
    """Everything that comes after the op carries it in its causes, whether the op waited or not. None at first; to set
    it is the strategy's business, when it answers."""

    @property
    def ended(self) -> bool:
        """Whether the op ended, and the rank that went on then was not killed later."""

    @property
    def met(self) -> int | None:
        """The causes of the last peer's coming; None if not all came."""


EAGER, RENDEZVOUS = "eager", "rendezvous"
"""An op does not wait, or waits, where it may do either."""

FAILING = "has kernels that raise"


class Strategy(ABC):
    """Answers the machine's questions, run after run."""

    @abstractmethod
    def pick(self, candidates: Sequence[Candidate]) -> int:
        """The index of the op that happens next. Never asked without candidates; asked even if there is just one."""

    @abstractmethod
    def draw(self, label: str, options: Sequence[str]) -> int:
        """The index of an option: the first is the ordinary one, the last the strictest, under which others wait
        longer."""

    def waits(self, wait: OptionalWait) -> bool:
        """Whether an op waits that need not."""
        return self.draw(wait.label, (EAGER, RENDEZVOUS)) == 1

    def blocked(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027  # most strategies do not care
        """These acquires cannot have what they want now. Told before every pick, and at the end of the run."""

    def lost(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027
        """These could happen now, but that what they belong to has died, that what they are for has come, or that a
        shorter time-out has: so others came before them.
        """

    def failing(self) -> Collection[int]:
        """Ranks of which a kernel raises in some run of this world. Asked when a run begins: of these, all that the
        device does is asked about, and so is when it stops. Else a kernel that raises stops it at once.
        """
        return ()

    def raised(self, rank: int) -> None:  # noqa: B027
        """A kernel of another rank than those raised, so this run shows one order of several."""


class ByLabel(Strategy):
    """One function of labels for both questions; ops are asked about as "op"."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return self.choose("op", [candidate.label for candidate in candidates])

    def draw(self, label: str, options: Sequence[str]) -> int:
        return self.choose(label, options)


class RunStopped(Exception):
    """Raised by a strategy: the run ends here, and is not judged. `run`: what there was of it by then, as far as the
    backend knows that.
    """

    run: Any = None


class CutOff(RunStopped):
    """A strategy has seen enough of a run."""


class Outgrown(CutOff):
    """A run takes more records or memory than it is given. Others would, too, and each takes long: none is begun."""


class OutOfTime(CutOff):
    """The time for all runs is up within one. Nothing is known of this run, nor of those that it stands for."""


class Unrepeatable(RunStopped, RuntimeError):
    """A run that was repeated went another way: something in it is not a function of the schedule."""


def conflict(one: str, other: str) -> bool:
    """Whether two modes on the same resource have an order, which may be the other one in another run.

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
    """What a rank does when it comes to a site, or what follows from that.

    >>> visit_label(3, "engine.poll", 2), visit_label(3, "box", 2, "delivers")
    ('rank 3 engine.poll[2]', 'rank 3 delivers box[2]')
    """
    return f"rank {rank} {verb} {site}[{ordinal}]" if verb else f"rank {rank} {site}[{ordinal}]"


def own_label(rank: int | str, what: str) -> str:
    """What a rank does once.

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
    """That kernels of a rank raise, as a word of a schedule.

    >>> failing_word(3)
    'rank 3 has kernels that raise'
    """
    return own_label(rank, FAILING)


# ---- labels, read


def actor(label: str) -> str:
    """Who does an op, as far as its label tells: "rank 3", or the communicator.

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
    """What goes on by itself and does this op: as `actor`, but for messages, which do not wait for their sender.

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
    """A label without its rank: what is done, whoever does it.

    >>> act("rank 3 engine.poll"), act("rank 3"), act("dp")
    ('engine.poll', 'rank 3', 'dp')
    """
    rank, _, rest = label.partition(" ")
    return (rest.partition(" ")[2] if rank == "rank" else "") or label
