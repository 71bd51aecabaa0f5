"""Finding: what a check reports. It has a class, a message and a culprit.

A class is a path of words joined by colons, the most general first. A user selects classes by patterns with shell
wildcards:

    >>> matches("HANG:COLLECTIVE:MISSING_RANK", "HANG:*"), matches("HANG:COLLECTIVE:MISSING_RANK", "HANG")
    (True, True)

    HANG:COLLECTIVE:MISSING_RANK         a rank left out, or never reached, a collective of its peers
    HANG:COLLECTIVE:EXTRA_CALL           a rank made a collective more often than its peers
    HANG:COLLECTIVE:DEAD_RANK            peers wait for a rank that died
    HANG:COLLECTIVE:ABORTED              peers wait for a rank that has aborted the communicator
    HANG:COLLECTIVE:ORDER_ACROSS_GROUPS  ranks wait for each other in different groups
    HANG:P2P:UNMATCHED_RECV              a rank waits for a transfer that its peer never sends
    HANG:P2P:UNMATCHED_SEND              a rank is blocked in a transfer that its peer never receives
    HANG:P2P:CROSSED_SENDS               ranks are blocked in sends to each other, before their receives
    HANG:P2P:CROSSED_RECVS               ranks are blocked in receives from each other, before their sends
    HANG:MAILBOX:NO_MESSAGE              a rank waits for a message that no actor sends
    HANG:MAILBOX:DEAD_RANK               a rank waits for a message, and the actor that would send it died
    HANG:MAILBOX:GATE                    a rank waits for the message that another run received in this call
    HANG:FLAG:NEVER_SET                  a host thread or a stream waits for a flag that no thread sets
    HANG:FLAG:CLEARED                    one waits for a flag that a thread set and cleared before
    HANG:FLAG:THREAD_ENDED               a host thread waits for a flag, and the thread that would set it has ended
    HANG:FLAG:CYCLE                      host threads wait for each other, by flags and perhaps joins
    HANG:EVENT:RECORDED_AGAIN            a host waits for an event that a stream records again behind a later act of it
    HANG:JOIN                            a host thread joins one that does not end: itself, or one that joins it, too
    HANG:STORE:NO_LISTENER               a rank waits at a port without a listener
    HANG:STORE:NO_VALUE                  a rank waits for a key of a store that no rank sets there
    HANG:HOST:NO_OP                      a host stopped between two ops, and issues no further op
    HANG:HOST:LAUNCH_QUEUE               a host is blocked in a launch, because the launch queue is full
    HANG:HOST:FIRST_USE                  a host waits in its first use of a communicator for other members
    HANG:HOST:ALLOC                      a host is blocked in an allocation that waits for the device
    HANG:UNDECIDED                       a run made no progress, and the journals do not show why
    LIVELOCK:POLL                        ranks move without end or progress: they poll mailboxes or stores in vain
    LIVELOCK:QUERY                       they query an event in vain
    LIVELOCK:FLAG                        they poll a flag in vain
    LIVELOCK:SLEEP                       they sleep, and query nothing
    LIVELOCK:DECISION                    they repeat decisions, marks and probes
    LIVELOCK:MESSAGES                    they answer each other's messages, and come into the same state again
    PROGRESS:BOUND                       after the last fault, a rank exceeds its bound on ops without reaching an end
    NONDETERMINISM:REPEAT                a repeated run differs, along its own schedule
    NONDETERMINISM:RANDOM                a run drew random numbers without a seed
    NONDETERMINISM:SHARED_STATE          a rank acts differently alone in its Python process
    MISMATCH:COLLECTIVE:STEP             as MISSING_RANK or EXTRA_CALL, but the run ended, with wrong pairs
    MISMATCH:COLLECTIVE:OP               members call one collective differently: another operation
    MISMATCH:COLLECTIVE:COUNT            another number of elements
    MISMATCH:COLLECTIVE:DTYPE            another type of elements
    MISMATCH:COLLECTIVE:ROOT             another root
    MISMATCH:COLLECTIVE:REDUCE           another reduction
    MISMATCH:COLLECTIVE:SIZES            other pieces
    MISMATCH:COLLECTIVE:SITES            equal calls in another order, which pair up crosswise
    MISMATCH:GROUP:RANKS                 members list different ranks for a group that they make together
    MISMATCH:TRANSFER:COUNT              a rank sends another number of elements than its peer receives
    MISMATCH:TRANSFER:DTYPE              another type of elements
    DISAGREEMENT:<LABEL>                 ranks of a group decided differently
    CRASH:<EXCEPTION>                    a rank's program raised; PROCESSEXIT: it would have ended its process
    DEATH:RANK                           a rank died and no rank waits for it
    RACE:BUFFER                          nothing orders two accesses of a buffer, of which one writes
    RACE:REUSED_IN_FLIGHT                nothing orders an access of a buffer and a write of one that may have its
                                         memory
    RACE:THREADS                         host threads use an object that one of them changes, without an order
    STALE:FREED                          a replay uses freed memory of its capture, or a program uses output of a
                                         graph after its pool gave the memory away
    STALE:REUSED_BLOCK                   an op touches memory that a newer buffer may have and write
    STALE:UNWRITTEN                      an op reads memory before any write
    STALE:NOT_WRITTEN_FOR_REPLAY         a replay reads the contents of the replay before it, and needs newer ones
    STALE:VERSION                        an op reads another version of a buffer than it expects
    UNDEFINED:NAN                        a member passes a NaN to a maximum or minimum, which libraries may lose
    UNDEFINED:ZERO_SIGN                  members pass 0.0 and -0.0 to a maximum or minimum, and it is one of the two
    GRAPH:HOST_EFFECT                    a host sent a message within a capture, and no replay sends it
    GRAPH:UNPAIRED                       one member of a collective is eager and another captured, or their captures
                                         differ
    LEFTOVER:NEVER_AWAITED               a program ended without awaiting an op that it began
    LEFTOVER:SEND                        ranks ended, and one never received what the other sent
    LEFTOVER:RECV                        ranks ended, and one never sent what the other wanted to receive

`CLASSES` is this table for programs: with it, dpsim refuses a pattern that can select nothing.

    >>> pattern_problem("HANG:*"), pattern_problem("CRASH:ValueError")
    (None, None)
    >>> pattern_problem("HANGS")
    "no finding has a class that 'HANGS' selects; did you mean 'HANG'?"
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from dpsim.contract.ops import MAIN, Record
from dpsim.contract.words import did_you_mean, ranks_text, step_words


@dataclass(frozen=True)
class Culprit:
    """The rank that a finding blames, and the op.

    `step` is the logical step, `site` the name of the op in the source, and `where` its file:line. `within` names the
    graph replay that contains the op (`dpsim.contract.rules.replay_frame`). `of_peer`: the rank left the op out, and
    `where` is the line at which a peer issued it. `service` is the name if the rank is a service. If several ranks did
    the same, `ranks` lists them and `rank` is the first; `every` is True if they are all ranks.
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
    of_peer: bool = False

    @property
    def who(self) -> str:
        """Returns the blamed ranks in words.

        >>> Culprit(1, 0, "dp.agree", "").who, Culprit(0, 0, "dp.agree", "", ranks=(0, 2)).who
        ('rank 1', 'ranks 0, 2')
        """
        return "every rank" if self.every else ranks_text(self.ranks or [self.rank])

    @staticmethod
    def of(rank: int, record: Record, within: str = "") -> Culprit:
        """Returns the culprit for an op of a rank. `within` names its replay."""
        return Culprit(rank, record.step, record.site, record.where, record.thread, within)

    def __str__(self) -> str:
        return self._text("")

    def described(self) -> str:
        """Returns the culprit for a report: it adds that a line is that of a peer. `str(culprit)` has no such addition,
        because files and tests identify a failure by it.

        >>> Culprit(1, 5, "dp.agree", "step.py:104", of_peer=True).described()
        'rank 1, step 5, dp.agree at step.py:104 (where a peer calls it)'
        """
        return self._text(" (where a peer calls it)" if self.of_peer else "")

    def _text(self, of_line: str) -> str:
        thread = "" if self.thread == MAIN else f" thread {self.thread},"
        where = f" at {self.where}{of_line}" if self.where else ""
        within = f", in {self.within}" if self.within else ""
        return step_words(f"{self.service or self.who},{thread} step {self.step}, {self.site}{where}{within}")


@dataclass(frozen=True)
class Finding:
    """A violation that a check found.

    `position` is (step, index of the op in its journal). Findings are sorted by it, so that the first is the cause: the
    primary finding. `message` is one line, and `details` are further lines for the report. `ground` is the evidence
    against the culprit, in parts of a line ("step tags differ in 7 of 7 later pairs"). `waits` is the chain of waits
    from the blocked rank to the culprit, in parts of a line. `ops` are the ops in no order, each as its rank and its
    index in the journal. `why` is the rule that decides if there is no `ground`, such as the number of ranks on
    each side. If no rank is blamed, `why` is the reason, for example that a majority proves nothing.
    """

    check: str
    klass: str
    message: str
    culprit: Culprit | None
    position: tuple[int, int]
    details: tuple[str, ...] = ()
    ground: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    ops: tuple[tuple[int, int], ...] = ()
    why: str = ""

    @property
    def grounds(self) -> tuple[str, ...]:
        """Returns the evidence against the culprit; without evidence, the rule that decided."""
        return self.ground or ((self.why,) if self.culprit is not None and self.why else ())


def matches(klass: str, pattern: str) -> bool:
    """Returns whether a class equals the pattern, matches it as a shell wildcard, or lies below it."""
    return klass.startswith(f"{pattern}:") or (fnmatchcase(klass, pattern) if wild(pattern) else klass == pattern)


def wild(pattern: str) -> bool:
    """Returns whether a pattern contains shell wildcards."""
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
    "LIVELOCK:MESSAGES",
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
    "UNDEFINED:ZERO_SIGN",
    "GRAPH:HOST_EFFECT",
    "GRAPH:UNPAIRED",
    "LEFTOVER:NEVER_AWAITED",
    "LEFTOVER:SEND",
    "LEFTOVER:RECV",
)
"""All classes that a finding can have. A part in angle brackets stands for any word, or several."""

REUSE = ("RACE:REUSED_IN_FLIGHT", "STALE:REUSED_BLOCK")
"""The classes that need the addresses of memory. A run shows them only if its backend records these."""


def can_match(known: str, pattern: str) -> bool:
    """Returns whether the pattern selects the class. For a class with angle brackets, one possible word suffices."""
    fixed, angle, _ = known.partition("<")
    if not angle:
        return matches(known, pattern)
    if not wild(pattern):
        return pattern.startswith(fixed) or fixed == f"{pattern}:"
    begins = any(fnmatchcase(fixed, pattern[:end]) for end in range(len(pattern) + 1))
    return begins or fixed == f"{pattern}:"


def covers(known: str, pattern: str) -> bool:
    """Returns whether the pattern selects the class. For a class with angle brackets, it must select all possible
    words.

        >>> covers("CRASH:<EXCEPTION>", "CRASH:*"), covers("CRASH:<EXCEPTION>", "CRASH:V*")
        (True, False)
    """
    fixed, angle, _ = known.partition("<")
    if not angle:
        return matches(known, pattern)
    return (pattern.endswith("*") and fnmatchcase(fixed, pattern)) or fixed.startswith(f"{pattern}:")


def pattern_problem(pattern: str) -> str | None:
    """Returns an error message for a pattern that can select no finding, with the nearest class. None for a good
    pattern.
    """
    if pattern in CLASSES or any(can_match(known, pattern) for known in CLASSES):
        return None
    parts = [known.partition(":<")[0].split(":") for known in CLASSES]
    levels = dict.fromkeys(":".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1))
    hint = did_you_mean(pattern.removesuffix(":*"), levels) or f"; there are {', '.join(CLASSES)}"
    return f"no finding has a class that {pattern!r} selects{hint}"
