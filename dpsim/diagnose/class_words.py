"""Class words: explains the class of a finding in a few words, for the first line of a report.

    >>> class_words("HANG:JOIN")
    'a host thread joins one that never ends'
    >>> kind_words("STALE:FREED"), kind_words("CRASH:WRONGTOKEN", "WrongToken"), kind_words("CRASH:KEYERROR")
    ('STALE MEMORY', 'WRONG TOKEN', 'KEYERROR')

`class_words` describes the event, and `kind_words` names the kind of failure.
"""

from __future__ import annotations

import re

KINDS = {
    "HANG": "HANG",
    "LIVELOCK": "LIVELOCK",
    "PROGRESS": "NO PROGRESS",
    "NONDETERMINISM": "NOT REPEATABLE",
    "MISMATCH": "MISMATCH",
    "DISAGREEMENT": "DISAGREEMENT",
    "DEATH": "DEATH",
    "RACE": "RACE",
    "STALE": "STALE MEMORY",
    "UNDEFINED": "UNDEFINED RESULT",
    "GRAPH": "GRAPH",
    "LEFTOVER": "LEFTOVER",
}
"""The kind of failure, by the first word of a class. For a crash it is the name of the exception instead."""

WORDS = {
    "HANG:COLLECTIVE:MISSING_RANK": "a rank left out a collective in which its peers wait",
    "HANG:COLLECTIVE:EXTRA_CALL": "a rank made a collective more often than its peers",
    "HANG:COLLECTIVE:DEAD_RANK": "peers wait for a rank that died or raised",
    "HANG:COLLECTIVE:ABORTED": "peers wait for a rank that aborted the communicator",
    "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS": "ranks wait for each other in different groups",
    "HANG:P2P:UNMATCHED_RECV": "a rank waits for a transfer that its peer never sends",
    "HANG:P2P:UNMATCHED_SEND": "a rank is blocked in a send that its peer never receives",
    "HANG:P2P:CROSSED_SENDS": "ranks are blocked in sends to each other, before their receives",
    "HANG:P2P:CROSSED_RECVS": "ranks are blocked in receives from each other, before their sends",
    "HANG:MAILBOX:NO_MESSAGE": "a rank waits for a message that does not come",
    "HANG:MAILBOX:DEAD_RANK": "a rank waits for a message, and its sender died",
    "HANG:MAILBOX:GATE": "a rank waits for the message that another run received in this call",
    "HANG:FLAG:NEVER_SET": "a thread or stream waits for a flag that no thread sets",
    "HANG:FLAG:CLEARED": "a thread waits for a flag that was set and cleared",
    "HANG:FLAG:THREAD_ENDED": "a thread waits for a flag, and the thread that would set it has ended",
    "HANG:FLAG:CYCLE": "host threads wait for each other",
    "HANG:EVENT:RECORDED_AGAIN": "an event is recorded again before its host has waited for it",
    "HANG:JOIN": "a host thread joins one that never ends",
    "HANG:STORE:NO_LISTENER": "a rank waits at a port where no store listens",
    "HANG:STORE:NO_VALUE": "a rank waits for a key that no rank sets",
    "HANG:HOST:NO_OP": "a host stopped between two ops, and issues no further op",
    "HANG:HOST:LAUNCH_QUEUE": "a host is blocked in a launch, because the launch queue is full",
    "HANG:HOST:FIRST_USE": "a host is blocked in its first use of a communicator",
    "HANG:HOST:ALLOC": "a host is blocked in an allocation that waits for its device",
    "HANG:UNDECIDED": "the run made no progress, and the journals do not show why",
    "LIVELOCK:POLL": "ranks poll a mailbox or a store again and again, in vain",
    "LIVELOCK:QUERY": "ranks query an event, or work that they started, again and again, in vain",
    "LIVELOCK:FLAG": "ranks poll a flag again and again, in vain",
    "LIVELOCK:SLEEP": "ranks sleep again and again, and no call can end the loop",
    "LIVELOCK:DECISION": "ranks repeat their decisions and get no further",
    "LIVELOCK:MESSAGES": "ranks answer messages with the same messages again and again",
    "PROGRESS:BOUND": "a rank issues more ops than its bound allows, and does not end",
    "NONDETERMINISM:REPEAT": "a repetition of the same schedule gave another run",
    "NONDETERMINISM:RANDOM": "the run drew random numbers without a seed",
    "NONDETERMINISM:SHARED_STATE": "a rank acts differently when it runs in its own process",
    "MISMATCH:COLLECTIVE:STEP": "members joined one collective in different steps, and the run continued",
    "MISMATCH:COLLECTIVE:OP": "members called one collective with different operations",
    "MISMATCH:COLLECTIVE:COUNT": "members called one collective with different counts",
    "MISMATCH:COLLECTIVE:DTYPE": "members called one collective with different types",
    "MISMATCH:COLLECTIVE:ROOT": "members called one collective with different roots",
    "MISMATCH:COLLECTIVE:REDUCE": "members called one collective with different reductions",
    "MISMATCH:COLLECTIVE:SIZES": "members called one collective with different pieces",
    "MISMATCH:COLLECTIVE:SITES": "members made equal collectives in different orders",
    "MISMATCH:GROUP:RANKS": "members list different ranks for a group that they make together",
    "MISMATCH:TRANSFER:COUNT": "the sender and the receiver of a transfer used different counts",
    "MISMATCH:TRANSFER:DTYPE": "the sender and the receiver of a transfer used different types",
    "DISAGREEMENT:<LABEL>": "ranks of a group decided differently",
    "CRASH:<EXCEPTION>": "the program raised",
    "DEATH:RANK": "a rank died",
    "RACE:BUFFER": "two accesses of a buffer have no order",
    "RACE:REUSED_IN_FLIGHT": "memory may be used again before its last access is over",
    "RACE:THREADS": "host threads use an object in no order, and one of them changes it",
    "STALE:FREED": "memory was used after it was freed",
    "STALE:REUSED_BLOCK": "an op uses memory that the allocator may have given to another buffer",
    "STALE:UNWRITTEN": "an op reads memory that no op wrote",
    "STALE:NOT_WRITTEN_FOR_REPLAY": "a replay reads input that no op wrote since the last one",
    "STALE:VERSION": "an op reads another version of a buffer than it expects",
    "UNDEFINED:NAN": "a member passes a NaN to a maximum or minimum",
    "UNDEFINED:ZERO_SIGN": "members pass 0.0 and -0.0 to a maximum or minimum",
    "GRAPH:HOST_EFFECT": "a host sent a message in a capture, and no replay sends it",
    "GRAPH:UNPAIRED": "members made one collective eagerly and in a graph, or in two graphs",
    "LEFTOVER:NEVER_AWAITED": "a program ended and never awaited an op that it began",
    "LEFTOVER:SEND": "ranks ended, and a send has no receive",
    "LEFTOVER:RECV": "ranks ended, and a receive has no send",
}
"""What happened, by class, in the order of `CLASSES`."""


def class_words(klass: str) -> str:
    """Returns what happened in a few words; empty for a class that dpsim does not know."""
    if klass.startswith("CRASH:"):
        return WORDS["CRASH:<EXCEPTION>"]
    return WORDS["DISAGREEMENT:<LABEL>"] if klass.startswith("DISAGREEMENT:") else WORDS.get(klass, "")


def kind_words(klass: str, raised: str = "") -> str:
    """Returns the kind of failure. `raised` is the exception's name in its own case, because a class is in capitals."""
    kind, _, name = klass.partition(":")
    if kind != "CRASH":
        return KINDS.get(kind, kind)
    known = raised if raised.upper() == name else name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", known).upper()
