"""What a check says when something does not hold.

Classes are hierarchical, parts joined by colons, most general first; patterns select them with shell wildcards:

    >>> matches("HANG:COLLECTIVE:MISSING_RANK", "HANG:*"), matches("HANG:COLLECTIVE:MISSING_RANK", "HANG")
    (True, True)

    HANG:COLLECTIVE:MISSING_RANK         a rank left out a collective that its peers wait in, or never came to it
    HANG:COLLECTIVE:EXTRA_CALL           a rank made a collective more often than its peers
    HANG:COLLECTIVE:DEAD_RANK            peers wait for a rank that died
    HANG:COLLECTIVE:ABORTED              peers wait for a rank that has aborted the communicator
    HANG:COLLECTIVE:ORDER_ACROSS_GROUPS  ranks wait for each other in different groups
    HANG:P2P:UNMATCHED_RECV              a rank waits for a transfer that its peer never sends
    HANG:P2P:UNMATCHED_SEND              a rank stands in a transfer that its peer never receives
    HANG:P2P:CROSSED_SENDS               ranks stand in sends to each other, before their receives
    HANG:P2P:CROSSED_RECVS               ranks stand in receives from each other, before their sends
    HANG:MAILBOX:NO_MESSAGE              a rank waits for a message that nobody sends
    HANG:MAILBOX:DEAD_RANK               a rank waits for a message, and whoever it would hear from died
    HANG:MAILBOX:GATE                    a rank waits for a message that another run had there (`World.gates`)
    HANG:FLAG:NEVER_SET                  a host thread or a stream waits for a flag that nobody sets
    HANG:FLAG:CLEARED                    one waits for a flag that was set before, and cleared, and not since
    HANG:FLAG:THREAD_ENDED               a host thread waits for a flag, and the thread that would set it has ended
    HANG:FLAG:CYCLE                      host threads wait for each other, by flags and perhaps joins
    HANG:EVENT:RECORDED_AGAIN            an event is recorded again behind what its host does only after waiting for it
    HANG:JOIN                            a host thread joins one that does not end: itself, or one that joins it, too
    HANG:STORE:NO_LISTENER               a rank waits at a port where nobody listens
    HANG:STORE:NO_VALUE                  a rank waits for a key of a store that nobody sets there
    HANG:HOST:NO_OP                      a host stands between two ops, and does no more
    HANG:HOST:LAUNCH_QUEUE               a host stands in a launch, since the launch queue is full
    HANG:HOST:FIRST_USE                  a host stands in its first use of a communicator, for its members
    HANG:HOST:ALLOC                      a host stands in an allocation that waits for the device
    HANG:UNDECIDED                       a run stood still, and the journals do not say why
    LIVELOCK:POLL                        ranks move for ever and get nowhere: they look for messages in vain
    LIVELOCK:QUERY                       they ask for an event in vain
    LIVELOCK:FLAG                        they look at a flag in vain
    LIVELOCK:SLEEP                       they sleep, and ask for nothing
    LIVELOCK:DECISION                    they decide, mark and probe what they did before
    PROGRESS:BOUND                       a rank goes on after the last fault, longer than it may, and gets nowhere
    NONDETERMINISM:REPEAT                a run that was repeated, along its own schedule, came out differently
    NONDETERMINISM:RANDOM                a run drew random numbers without a seed
    NONDETERMINISM:SHARED_STATE          a rank does something else where it is alone in its Python process
    MISMATCH:COLLECTIVE:STEP             as MISSING_RANK or EXTRA_CALL, but the run got through, paired up wrongly
    MISMATCH:COLLECTIVE:OP               members of one collective called it differently: another operation
    MISMATCH:COLLECTIVE:COUNT            another number of elements
    MISMATCH:COLLECTIVE:DTYPE            another type of elements
    MISMATCH:COLLECTIVE:ROOT             another root
    MISMATCH:COLLECTIVE:REDUCE           another reduction
    MISMATCH:COLLECTIVE:SIZES            other pieces
    MISMATCH:COLLECTIVE:SITES            equal calls in another order: they pair up crosswise
    MISMATCH:GROUP:RANKS                 members name other ranks for a group that they make together
    MISMATCH:TRANSFER:COUNT              a rank sends another number of elements than its peer receives
    MISMATCH:TRANSFER:DTYPE              another type of elements
    DISAGREEMENT:<LABEL>                 ranks of a group decided differently
    CRASH:<EXCEPTION>                    a rank's program raised; PROCESSEXIT: it would have ended its process
    DEATH:RANK                           a rank died and nobody waits for it
    RACE:BUFFER                          two accesses of a buffer of which one writes, and nothing orders them
    RACE:REUSED_IN_FLIGHT                an access of a buffer and the write of one that may have its memory, and
                                         nothing orders them
    RACE:THREADS                         host threads use what one of them changes, and no flag orders their turns
    STALE:FREED                          a replay uses memory of its capture that was freed, or a program uses what
                                         a graph left, when the graph's pool had given that out again
    STALE:REUSED_BLOCK                   an op touches memory that may have been given away and written before
    STALE:UNWRITTEN                      an op reads memory that nothing wrote before
    STALE:NOT_WRITTEN_FOR_REPLAY         a replay reads what the replay before it has read, and needs newer contents
    STALE:VERSION                        an op reads another version of a buffer than it expects
    UNDEFINED:NAN                        a member brings a NaN to a maximum or minimum, which libraries may lose
    GRAPH:HOST_EFFECT                    a host sent a message within a capture: no replay sends it
    GRAPH:UNPAIRED                       members of one collective: eager the one, captured the other, or of different
                                         captures
    LEFTOVER:NEVER_AWAITED               a program ended and never awaited an op that it began
    LEFTOVER:SEND                        ranks ended, and what one sent the other never received
    LEFTOVER:RECV                        ranks ended, and what one wanted to receive the other never sent

`CLASSES` is this table for programs: by it a pattern that can select nothing is refused.

    >>> pattern_problem("HANG:*"), pattern_problem("CRASH:ValueError")
    (None, None)
    >>> pattern_problem("HANGS")
    "no finding has a class that 'HANGS' selects; did you mean 'HANG'?"
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from dpsim.contract.ops import MAIN, Record
from dpsim.contract.words import did_you_mean, ranks_text


@dataclass(frozen=True)
class Culprit:
    """Who did it: rank, logical step, site of the op, its file:line (of the peers' op where the rank left it out), the
    host thread, in which replay of a graph (`dpsim.contract.rules.replay_frame`), and the name of the rank if it is a
    service. Several ranks that did the same are all in `ranks`, the first of them in `rank`; `every`: these are all.
    """

    rank: int
    step: int
    site: str
    where: str
    thread: str = MAIN
    within: str = ""
    service: str = ""
    ranks: tuple[int, ...] = ()
    every: bool = False

    @property
    def who(self) -> str:
        """The rank in words, or all that did it.

        >>> Culprit(1, 0, "dp.agree", "").who, Culprit(0, 0, "dp.agree", "", ranks=(0, 2)).who
        ('rank 1', 'ranks 0, 2')
        """
        return "every rank" if self.every else ranks_text(self.ranks or [self.rank])

    @staticmethod
    def of(rank: int, record: Record, within: str = "") -> Culprit:
        """Whoever issued an op."""
        return Culprit(rank, record.step, record.site, record.where, record.thread, within)

    def __str__(self) -> str:
        thread = "" if self.thread == MAIN else f" thread {self.thread},"
        where = f" at {self.where}" if self.where else ""
        within = f", in {self.within}" if self.within else ""
        return f"{self.service or self.who},{thread} step {self.step}, {self.site}{where}{within}"


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold.

    `position` orders findings by cause: (step, index of the op in a journal); the smallest is the primary one.
    `message` is one line; `details` are further lines for the report. `ground`: what the culprit rests on, in parts of
    a line ("step tags differ in 7 of 7 later pairs"). `waits`: the chain of who waits for whom, from the one that
    shows the hang to the culprit, in parts of a line.
    """

    check: str
    klass: str
    message: str
    culprit: Culprit | None
    position: tuple[int, int]
    details: tuple[str, ...] = ()
    ground: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


def matches(klass: str, pattern: str) -> bool:
    """Whether a class is the pattern, matches it as a shell wildcard, or lies below it."""
    return klass.startswith(f"{pattern}:") or (fnmatchcase(klass, pattern) if wild(pattern) else klass == pattern)


def wild(pattern: str) -> bool:
    """Whether it has characters that a shell expands."""
    return "*" in pattern or "?" in pattern or "[" in pattern


CLASSES = (
    "HANG:COLLECTIVE:MISSING_RANK",
    "HANG:COLLECTIVE:EXTRA_CALL",
    "HANG:COLLECTIVE:DEAD_RANK",
    "HANG:COLLECTIVE:ABORTED",
    "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
    "HANG:P2P:UNMATCHED_RECV",
    "HANG:P2P:UNMATCHED_SEND",
    "HANG:P2P:CROSSED_SENDS",
    "HANG:P2P:CROSSED_RECVS",
    "HANG:MAILBOX:NO_MESSAGE",
    "HANG:MAILBOX:DEAD_RANK",
    "HANG:MAILBOX:GATE",
    "HANG:FLAG:NEVER_SET",
    "HANG:FLAG:CLEARED",
    "HANG:FLAG:THREAD_ENDED",
    "HANG:FLAG:CYCLE",
    "HANG:EVENT:RECORDED_AGAIN",
    "HANG:JOIN",
    "HANG:STORE:NO_LISTENER",
    "HANG:STORE:NO_VALUE",
    "HANG:HOST:NO_OP",
    "HANG:HOST:LAUNCH_QUEUE",
    "HANG:HOST:FIRST_USE",
    "HANG:HOST:ALLOC",
    "HANG:UNDECIDED",
    "LIVELOCK:POLL",
    "LIVELOCK:QUERY",
    "LIVELOCK:FLAG",
    "LIVELOCK:SLEEP",
    "LIVELOCK:DECISION",
    "PROGRESS:BOUND",
    "NONDETERMINISM:REPEAT",
    "NONDETERMINISM:RANDOM",
    "NONDETERMINISM:SHARED_STATE",
    "MISMATCH:COLLECTIVE:STEP",
    "MISMATCH:COLLECTIVE:OP",
    "MISMATCH:COLLECTIVE:COUNT",
    "MISMATCH:COLLECTIVE:DTYPE",
    "MISMATCH:COLLECTIVE:ROOT",
    "MISMATCH:COLLECTIVE:REDUCE",
    "MISMATCH:COLLECTIVE:SIZES",
    "MISMATCH:COLLECTIVE:SITES",
    "MISMATCH:GROUP:RANKS",
    "MISMATCH:TRANSFER:COUNT",
    "MISMATCH:TRANSFER:DTYPE",
    "DISAGREEMENT:<LABEL>",
    "CRASH:<EXCEPTION>",
    "DEATH:RANK",
    "RACE:BUFFER",
    "RACE:REUSED_IN_FLIGHT",
    "RACE:THREADS",
    "STALE:FREED",
    "STALE:REUSED_BLOCK",
    "STALE:UNWRITTEN",
    "STALE:NOT_WRITTEN_FOR_REPLAY",
    "STALE:VERSION",
    "UNDEFINED:NAN",
    "GRAPH:HOST_EFFECT",
    "GRAPH:UNPAIRED",
    "LEFTOVER:NEVER_AWAITED",
    "LEFTOVER:SEND",
    "LEFTOVER:RECV",
)
"""All classes that a finding can have. What is in angle brackets can be any word, or several."""

REUSE = ("RACE:REUSED_IN_FLIGHT", "STALE:REUSED_BLOCK")
"""Those that a run shows only if its backend tells where memory lies."""


def can_match(known: str, pattern: str) -> bool:
    """Whether the pattern selects the class, or one of those that a class with angle brackets stands for."""
    fixed, angle, _ = known.partition("<")
    if not angle:
        return matches(known, pattern)
    if not wild(pattern):
        return pattern.startswith(fixed) or fixed == f"{pattern}:"
    begins = any(fnmatchcase(fixed, pattern[:end]) for end in range(len(pattern) + 1))
    return begins or fixed == f"{pattern}:"


def covers(known: str, pattern: str) -> bool:
    """Whether the pattern selects the class, and all of those that a class with angle brackets stands for.

    >>> covers("CRASH:<EXCEPTION>", "CRASH:*"), covers("CRASH:<EXCEPTION>", "CRASH:V*")
    (True, False)
    """
    fixed, angle, _ = known.partition("<")
    if not angle:
        return matches(known, pattern)
    return (pattern.endswith("*") and fnmatchcase(fixed, pattern)) or fixed.startswith(f"{pattern}:")


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern that can select no finding, with the nearest class; None if it can."""
    if pattern in CLASSES or any(can_match(known, pattern) for known in CLASSES):
        return None
    parts = [known.partition(":<")[0].split(":") for known in CLASSES]
    levels = dict.fromkeys(":".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1))
    hint = did_you_mean(pattern.removesuffix(":*"), levels) or f"; there are {', '.join(CLASSES)}"
    return f"no finding has a class that {pattern!r} selects{hint}"
