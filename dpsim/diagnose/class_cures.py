"""Class cures: how a user fixes a finding, by its class. `dpsim show CLASS` and docs/finding-classes.md print it.

    >>> class_cure("HANG:JOIN")
    'Let no thread join itself or a thread that joins it.'

A report names the rank, the line and the cause of one finding. A cure describes what all fixes of its class have in
common.
"""

from __future__ import annotations

CURES = {
    "HANG:COLLECTIVE:MISSING_RANK": "Let each member of the group reach the call, or let all members skip it by one "
    "agreed condition.",
    "HANG:COLLECTIVE:EXTRA_CALL": "Make the number of calls depend only on values that all members agreed on.",
    "HANG:COLLECTIVE:DEAD_RANK": "Fix the crash first. If ranks may die, peers need a time-out or a watch, and an "
    "abort of the communicator.",
    "HANG:COLLECTIVE:ABORTED": "Send the peers a message before a rank aborts, or let each rank abort "
    "after an agreed step.",
    "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS": "Let all ranks use their groups in one order.",
    "HANG:P2P:UNMATCHED_RECV": "Match each receive with a send: compare peer, tag and count of both sides.",
    "HANG:P2P:UNMATCHED_SEND": "Match each send with a receive: compare peer, tag and count of both sides.",
    "HANG:P2P:CROSSED_SENDS": "Let one side receive first, start sends without waiting, or group both transfers.",
    "HANG:P2P:CROSSED_RECVS": "Let one side send first, or group both transfers.",
    "HANG:MAILBOX:NO_MESSAGE": "Post the message on each path that leads to this wait, or give the wait a time-out.",
    "HANG:MAILBOX:DEAD_RANK": "Give the wait a time-out, or watch the sender.",
    "HANG:MAILBOX:GATE": "Take gates from a run of the same program and scenario.",
    "HANG:FLAG:NEVER_SET": "Set the flag on each path that leads to this wait.",
    "HANG:FLAG:CLEARED": "Clear a flag only after each waiter has seen it.",
    "HANG:FLAG:THREAD_ENDED": "Let the thread set its flags before it ends, also after an exception.",
    "HANG:FLAG:CYCLE": "Let one thread set its flag before it waits.",
    "HANG:EVENT:RECORDED_AGAIN": "Wait for the event before a stream records it again, or use a second event.",
    "HANG:JOIN": "Let no thread join itself or a thread that joins it.",
    "HANG:STORE:NO_LISTENER": "Start the store first, and compare the ports of both sides.",
    "HANG:STORE:NO_VALUE": "Let a rank set the key, and compare the spelling of both sides.",
    "HANG:HOST:NO_OP": "Look for a loop or a blocking call of the host between these two ops.",
    "HANG:HOST:LAUNCH_QUEUE": "Wait for the device before the host launches more, or unblock the stream.",
    "HANG:HOST:FIRST_USE": "Let all members use a communicator for the first time in one order.",
    "HANG:HOST:ALLOC": "Allocate before the launch that waits for this host.",
    "HANG:UNDECIDED": "Read the last ops of each rank in the whole report (`--full`).",
    "LIVELOCK:POLL": "Let an actor send the message or set the key, and end the loop after an agreed condition.",
    "LIVELOCK:QUERY": "Start or finish the work that the loop queries, or wait for it instead.",
    "LIVELOCK:FLAG": "Set the flag, or wait for it instead of polling.",
    "LIVELOCK:SLEEP": "Give the loop a condition that another rank or the clock makes true.",
    "LIVELOCK:DECISION": "Find the value that the loop waits for, and which rank changes it.",
    "LIVELOCK:MESSAGES": "Let one of the ranks end the exchange: count its rounds, or send a last message.",
    "PROGRESS:BOUND": "Let the rank stop after a fault, or raise `limits.progress` if it needs more ops.",
    "NONDETERMINISM:REPEAT": "Remove what the program reads outside of the contract: clocks, hash order, global state.",
    "NONDETERMINISM:RANDOM": "Make random generators from a seed that the scenario gives.",
    "NONDETERMINISM:SHARED_STATE": "Keep state in the rank. Ranks of real processes share no Python object.",
    "MISMATCH:COLLECTIVE:STEP": "Let each member make the call in each step, or let all skip it.",
    "MISMATCH:COLLECTIVE:OP": "Decide the operation from values that all members agreed on.",
    "MISMATCH:COLLECTIVE:COUNT": "Use the agreed count, not the rank's own.",
    "MISMATCH:COLLECTIVE:DTYPE": "Give the array an explicit dtype on each rank.",
    "MISMATCH:COLLECTIVE:ROOT": "Let all members compute the same root, in the same numbering of ranks.",
    "MISMATCH:COLLECTIVE:REDUCE": "Pass the same reduction on each rank.",
    "MISMATCH:COLLECTIVE:SIZES": "Exchange the sizes of the pieces before the call.",
    "MISMATCH:COLLECTIVE:SITES": "Let all members make these calls in one order.",
    "MISMATCH:GROUP:RANKS": "Compute the list of members from shared values, in one order.",
    "MISMATCH:TRANSFER:COUNT": "Let both sides use one count, which the sender sends first if only it knows it.",
    "MISMATCH:TRANSFER:DTYPE": "Give both buffers the same dtype.",
    "DISAGREEMENT:<LABEL>": "Decide from agreed values only: exchange the rank's own values before the decision. "
    "If the value follows from messages in any order, fix that order, for example by a number in each message.",
    "CRASH:<EXCEPTION>": "Read the exception at the line of the report; other findings may follow from it. "
    "The rank that raised may be a victim of another rank's value.",
    "DEATH:RANK": "Read the exit code and the log of the rank's process.",
    "RACE:BUFFER": "Order both accesses: let one stream wait for an event of the other, or wait on the host.",
    "RACE:REUSED_IN_FLIGHT": "Keep the buffer until its last access is over, or record the stream that uses it.",
    "RACE:THREADS": "Order both uses by a flag, a join or a lock of the program.",
    "STALE:FREED": "Keep the buffer for as long as a graph or an output uses it, or copy the output.",
    "STALE:REUSED_BLOCK": "Free a buffer only after the streams that use it have passed that use.",
    "STALE:UNWRITTEN": "Write the buffer, or receive into it, before this op.",
    "STALE:NOT_WRITTEN_FOR_REPLAY": "Copy the new contents into the graph's input before each replay.",
    "STALE:VERSION": "Order the op between the write that it needs and the next write.",
    "UNDEFINED:NAN": "Replace NaN before the reduction, or reduce a flag that says where it occurs.",
    "UNDEFINED:ZERO_SIGN": "Add 0.0 to the input of each member, which turns -0.0 into 0.0.",
    "GRAPH:HOST_EFFECT": "Send the message outside of the capture, once for each replay.",
    "GRAPH:UNPAIRED": "Agree on the mode of a step: all members make the call eagerly, or all replay the same capture.",
    "LEFTOVER:NEVER_AWAITED": "Await the work before the program ends.",
    "LEFTOVER:SEND": "Receive the message, or do not send it.",
    "LEFTOVER:RECV": "Send the message, or leave the receive out.",
}
"""The cure of each class, in the order of `dpsim.checks.finding.CLASSES`."""


def class_cure(klass: str) -> str:
    """Returns one or two sentences; empty for a class that dpsim does not know."""
    if klass.startswith("CRASH:"):
        return CURES["CRASH:<EXCEPTION>"]
    return CURES["DISAGREEMENT:<LABEL>"] if klass.startswith("DISAGREEMENT:") else CURES.get(klass, "")
