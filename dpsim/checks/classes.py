"""Classes: the table of all classes of findings, one row each. A class is added here, and in no other list.

The full name of a row is a path of words joined by colons, the most general first. Its first word is the family. At
most two words are the class, which heads a report. The third word is the detail: how the mistake showed. One mistake
may show in several ways, because schedules differ; so reports and the identity of a failure have the class alone.

    >>> class_and_detail("HANG:COLLECTIVE:MISSING_RANK"), class_and_detail("STALE:FREED")
    (('HANG:COLLECTIVE', 'MISSING_RANK'), ('STALE:FREED', ''))

A row has what dpsim prints about a finding. `words` stand in the first line of a report, and `cure` is the usual fix. A
report names the rank, the line and the cause of one finding; a cure describes what all fixes of its row have in common.
For those who write checks, `meaning` tells when a check reports the row, if `words` do not tell it exactly.

    >>> row_of("HANG:JOIN").cure
    'Let no thread join itself or a thread that joins it.'
    >>> row_of("CRASH:KEYERROR").name, row_of("CRASH:KEYERROR").family
    ('CRASH:<EXCEPTION>', 'CRASH')

A part in angle brackets stands for any word, or several. `dpsim show CLASS`, docs/finding-classes.md, reports and the
completion of the command line read this table, and dpsim refuses a pattern that selects none of its classes.
"""

from __future__ import annotations

from typing import NamedTuple


class Class(NamedTuple):
    """A class of findings. `needs_place`: a run shows it only if its backend records where memory lies."""

    name: str
    words: str
    cure: str
    meaning: str = ""
    needs_place: bool = False

    @property
    def family(self) -> str:
        return self.name.partition(":")[0]


_ROWS = (
    Class("HANG:COLLECTIVE:MISSING_RANK", "a rank left out a collective in which its peers wait",
        "Let each member of the group reach the call, or let all members skip it by one agreed condition.",
        meaning="a rank left out, or never reached, a collective of its peers"),
    Class("HANG:COLLECTIVE:EXTRA_CALL", "a rank made a collective more often than its peers",
        "Make the number of calls depend only on values that all members agreed on."),
    Class("HANG:COLLECTIVE:DEAD_RANK", "peers wait for a rank that died or raised",
        "Fix the crash first. If ranks may die, peers need a time-out or a watch, and an abort of the "
        "communicator."),
    Class("HANG:COLLECTIVE:ABORTED", "peers wait for a rank that aborted the communicator",
        "Send the peers a message before a rank aborts, or let each rank abort after an agreed step."),
    Class("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", "ranks wait for each other in different groups",
        "Let all ranks use their groups in one order."),
    Class("HANG:P2P:UNMATCHED_RECV", "a rank waits for a transfer that its peer never sends",
        "Match each receive with a send: compare peer, tag and count of both sides."),
    Class("HANG:P2P:UNMATCHED_SEND", "a rank is blocked in a send that its peer never receives",
        "Match each send with a receive: compare peer, tag and count of both sides.",
        meaning="a rank is blocked in a transfer that its peer never receives"),
    Class("HANG:P2P:CROSSED_SENDS", "ranks are blocked in sends to each other, before their receives",
        "Let one side receive first, start sends without waiting, or group both transfers."),
    Class("HANG:P2P:CROSSED_RECVS", "ranks are blocked in receives from each other, before their sends",
        "Let one side send first, or group both transfers."),
    Class("HANG:MAILBOX:NO_MESSAGE", "a rank waits for a message that does not come",
        "Post the message on each path that leads to this wait, or give the wait a time-out.",
        meaning="a rank waits for a message that no actor sends"),
    Class("HANG:MAILBOX:DEAD_RANK", "a rank waits for a message, and its sender died",
        "Give the wait a time-out, or watch the sender."),
    Class("HANG:MAILBOX:GATE", "a rank waits for the message that another run received in this call",
        "Take gates from a run of the same program and scenario."),
    Class("HANG:FLAG:NEVER_SET", "a thread or stream waits for a flag that no thread sets",
        "Set the flag on each path that leads to this wait."),
    Class("HANG:FLAG:CLEARED", "a thread waits for a flag that was set and cleared",
        "Clear a flag only after each waiter has seen it.",
        meaning="a host thread or a stream waits for a flag that a thread set and cleared before"),
    Class("HANG:FLAG:THREAD_ENDED", "a thread waits for a flag, and the thread that would set it has ended",
        "Let the thread set its flags before it ends, also after an exception."),
    Class("HANG:FLAG:CYCLE", "host threads wait for each other",
        "Let one thread set its flag before it waits.",
        meaning="host threads wait for each other, by flags and perhaps joins"),
    Class("HANG:EVENT:RECORDED_AGAIN", "an event is recorded again before its host has waited for it",
        "Wait for the event before a stream records it again, or use a second event.",
        meaning="a host waits for an event that a stream records again behind a later act of it"),
    Class("HANG:JOIN", "a host thread joins one that never ends",
        "Let no thread join itself or a thread that joins it.",
        meaning="a host thread joins itself, or one that joins it, too"),
    Class("HANG:STORE:NO_LISTENER", "a rank waits at a port where no store listens",
        "Start the store first, and compare the ports of both sides."),
    Class("HANG:STORE:NO_VALUE", "a rank waits for a key that no rank sets",
        "Let a rank set the key, and compare the spelling of both sides."),
    Class("HANG:HOST:NO_OP", "a host stopped between two ops, and issues no further op",
        "Look for a loop or a blocking call of the host between these two ops."),
    Class("HANG:HOST:LAUNCH_QUEUE", "a host is blocked in a launch, because the launch queue is full",
        "Wait for the device before the host launches more, or unblock the stream."),
    Class("HANG:HOST:FIRST_USE", "a host is blocked in its first use of a communicator",
        "Let all members use a communicator for the first time in one order.",
        meaning="a host waits in its first use of a communicator for other members"),
    Class("HANG:HOST:ALLOC", "a host is blocked in an allocation that waits for its device",
        "Allocate before the launch that waits for this host."),
    Class("HANG:UNDECIDED", "the run made no progress, and the journals do not show why",
        "Read the last ops of each rank in the whole report (`--full`)."),
    Class("LIVELOCK:POLL", "ranks poll a mailbox or a store again and again, in vain",
        "Let an actor send the message or set the key, and end the loop after an agreed condition.",
        meaning="ranks move without end or progress: they poll mailboxes or stores in vain"),
    Class("LIVELOCK:QUERY", "ranks query an event, or work that they started, again and again, in vain",
        "Start or finish the work that the loop queries, or wait for it instead."),
    Class("LIVELOCK:FLAG", "ranks poll a flag again and again, in vain",
        "Set the flag, or wait for it instead of polling."),
    Class("LIVELOCK:SLEEP", "ranks sleep again and again, and no call can end the loop",
        "Give the loop a condition that another rank or the clock makes true.",
        meaning="ranks sleep, and query nothing"),
    Class("LIVELOCK:DECISION", "ranks repeat their decisions and get no further",
        "Find the value that the loop waits for, and which rank changes it.",
        meaning="ranks repeat decisions, marks and probes"),
    Class("LIVELOCK:MESSAGES", "ranks answer messages with the same messages again and again",
        "Let one of the ranks end the exchange: count its rounds, or send a last message.",
        meaning="ranks answer each other's messages, and come into the same state again"),
    Class("PROGRESS:BOUND", "a rank issues more ops than its bound allows, and does not end",
        "Let the rank stop after a fault, or raise `limits.progress` if it needs more ops.",
        meaning="after the last fault, a rank exceeds its bound on ops without reaching an end"),
    Class("NONDETERMINISM:REPEAT", "a repetition of the same schedule gave another run",
        "Remove what the program reads outside of the contract: clocks, hash order, global state.",
        meaning="a repeated run differs, along its own schedule"),
    Class("NONDETERMINISM:RANDOM", "the run drew random numbers without a seed",
        "Make random generators from a seed that the scenario gives."),
    Class("NONDETERMINISM:SHARED_STATE", "a rank acts differently when it runs in its own process",
        "Keep state in the rank. Ranks of real processes share no Python object."),
    Class("MISMATCH:COLLECTIVE:STEP", "members joined one collective in different steps, and the run continued",
        "Let each member make the call in each step, or let all skip it.",
        meaning="as HANG:COLLECTIVE:MISSING_RANK or EXTRA_CALL, but the run ended, with wrong pairs"),
    Class("MISMATCH:COLLECTIVE:OP", "members called one collective with different operations",
        "Decide the operation from values that all members agreed on."),
    Class("MISMATCH:COLLECTIVE:COUNT", "members called one collective with different counts",
        "Use the agreed count, not the rank's own."),
    Class("MISMATCH:COLLECTIVE:DTYPE", "members called one collective with different types",
        "Give the array an explicit dtype on each rank."),
    Class("MISMATCH:COLLECTIVE:ROOT", "members called one collective with different roots",
        "Let all members compute the same root, in the same numbering of ranks."),
    Class("MISMATCH:COLLECTIVE:REDUCE", "members called one collective with different reductions",
        "Pass the same reduction on each rank."),
    Class("MISMATCH:COLLECTIVE:SIZES", "members called one collective with different pieces",
        "Exchange the sizes of the pieces before the call."),
    Class("MISMATCH:COLLECTIVE:SITES", "members made equal collectives in different orders",
        "Let all members make these calls in one order.",
        meaning="equal calls in another order, which pair up crosswise"),
    Class("MISMATCH:GROUP:RANKS", "members list different ranks for a group that they make together",
        "Compute the list of members from shared values, in one order."),
    Class("MISMATCH:TRANSFER:COUNT", "the sender and the receiver of a transfer used different counts",
        "Let both sides use one count, which the sender sends first if only it knows it."),
    Class("MISMATCH:TRANSFER:DTYPE", "the sender and the receiver of a transfer used different types",
        "Give both buffers the same dtype."),
    Class("DISAGREEMENT:<LABEL>", "ranks of a group decided differently",
        "Decide from agreed values only: exchange the rank's own values before the decision. If the value "
        "follows from messages in any order, fix that order, for example by a number in each message."),
    Class("CRASH:<EXCEPTION>", "the program raised",
        "Read the exception at the line of the report; other findings may follow from it. The rank that "
        "raised may be a victim of another rank's value.",
        meaning="a rank's program raised; PROCESSEXIT: it would have ended its process"),
    Class("DEATH:RANK", "a rank died",
        "Read the exit code and the log of the rank's process.",
        meaning="a rank died and no rank waits for it"),
    Class("RACE:BUFFER", "two accesses of a buffer have no order",
        "Order both accesses: let one stream wait for an event of the other, or wait on the host.",
        meaning="nothing orders two accesses of a buffer, of which one writes"),
    Class("RACE:REUSED_IN_FLIGHT", "memory may be used again before its last access is over",
        "Keep the buffer until its last access is over, or record the stream that uses it.",
        meaning="nothing orders an access of a buffer and a write of one that may have its memory", needs_place=True),
    Class("RACE:THREADS", "host threads use an object in no order, and one of them changes it",
        "Order both uses by a flag, a join or a lock of the program."),
    Class("STALE:FREED", "memory was used after it was freed",
        "Keep the buffer for as long as a graph or an output uses it, or copy the output.",
        meaning="a replay uses freed memory of its capture, or a program uses output of a graph after its pool gave "
        "the memory away"),
    Class("STALE:REUSED_BLOCK", "an op uses memory that the allocator may have given to another buffer",
        "Free a buffer only after the streams that use it have passed that use.",
        meaning="an op touches memory that a newer buffer may have and write", needs_place=True),
    Class("STALE:UNWRITTEN", "an op reads memory that no op wrote",
        "Write the buffer, or receive into it, before this op."),
    Class("STALE:NOT_WRITTEN_FOR_REPLAY", "a replay reads input that no op wrote since the last one",
        "Copy the new contents into the graph's input before each replay.",
        meaning="a replay reads the contents of the replay before it, and needs newer ones"),
    Class("STALE:VERSION", "an op reads another version of a buffer than it expects",
        "Order the op between the write that it needs and the next write."),
    Class("UNDEFINED:NAN", "a member passes a NaN to a maximum or minimum",
        "Replace NaN before the reduction, or reduce a flag that says where it occurs.",
        meaning="a member passes a NaN to a maximum or minimum, which libraries may lose"),
    Class("UNDEFINED:ZERO_SIGN", "members pass 0.0 and -0.0 to a maximum or minimum",
        "Add 0.0 to the input of each member, which turns -0.0 into 0.0.",
        meaning="members pass 0.0 and -0.0 to a maximum or minimum, and it is one of the two"),
    Class("GRAPH:HOST_EFFECT", "a host sent a message in a capture, and no replay sends it",
        "Send the message outside of the capture, once for each replay."),
    Class("GRAPH:UNPAIRED", "members made one collective eagerly and in a graph, or in two graphs",
        "Agree on the mode of a step: all members make the call eagerly, or all replay the same capture.",
        meaning="one member of a collective is eager and another captured, or their captures differ"),
    Class("LEFTOVER:NEVER_AWAITED", "a program ended and never awaited an op that it began",
        "Await the work before the program ends."),
    Class("LEFTOVER:SEND", "ranks ended, and a send has no receive",
        "Receive the message, or do not send it."),
    Class("LEFTOVER:RECV", "ranks ended, and a receive has no send",
        "Send the message, or leave the receive out."),
)  # fmt: skip

CLASSES = {one.name: one for one in _ROWS}
"""The row of each class, by its name. A page, a list or a completion has this order."""

HEADINGS = {
    "PROGRESS": "NO PROGRESS",
    "NONDETERMINISM": "NOT REPEATABLE",
    "STALE": "STALE MEMORY",
    "UNDEFINED": "UNDEFINED RESULT",
}
"""What a report calls a family whose own name says too little there."""


def row_of(klass: str) -> Class:
    """Returns the row of a finding's class. Of a class that dpsim does not know, all texts are empty."""
    open_ended = (one for one in CLASSES.values() if "<" in one.name and klass.startswith(one.name.partition("<")[0]))
    return CLASSES.get(klass) or next(open_ended, Class(klass, "", ""))


def class_and_detail(name: str) -> tuple[str, str]:
    """Returns the class and the detail of a full name, or of a pattern. The detail is "" if there is none.

    A part in angle brackets may itself contain colons, so the row decides how many words the name has.
    """
    if row_of(name).name.count(":") < 2:
        return name, ""
    klass, _, detail = name.rpartition(":")
    return klass, detail


def json_of(name: str | None) -> dict[str, str | None]:
    """Returns the class and the detail of a full name as in JSON, with null for what is missing."""
    klass, detail = class_and_detail(name or "")
    return {"class": klass or None, "detail": detail or None}


def names() -> list[str]:
    """Returns all classes, each before the full names of its rows."""
    return [*dict.fromkeys(part for name in CLASSES for part in (class_and_detail(name)[0], name))]
