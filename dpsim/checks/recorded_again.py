"""Explains a hang of a stream and a host: the second record of an event is the cause.

    main        record e   side waits for f   record e again on side   synchronize e   set f: it never reaches this

`event.synchronize()` waits for the most recent record of the event. Here, stream `side` executes that record only after
its wait for flag f. The host sets f only after `synchronize` returns. So the stream and the host wait for each other.
Without the second record, the host would continue, because a stream executes the first record before the wait.

`dpsim.checks.stream_flags` finds a stream that waits for a flag which no thread sets, and calls this module. If the
module finds the second record, the finding is HANG:EVENT:RECORDED_AGAIN with that record as its culprit.

The module reads the journal of one rank in order, and determines which streams and events come after the wait for the
flag. It uses the order of ops within a stream, and the waits of streams for events. Two ops of one device communicator
also run in order, even if they are on different streams. The module ignores this order, so it misses hangs that need
it.
"""

from __future__ import annotations

from dpsim.contract.ops import EVENT, KIND, STREAM, RawRecord


def recorded_again(journal: list[RawRecord], wait: int, query: int) -> int | None:
    """Returns the index of the second record of the event, or None.

    `wait` is the index of the stream's wait for a flag. `query` is the index of the read or synchronize in which the
    host waits. None if the host waits for something else, or if no stream recorded an event again.
    """
    behind: dict[str, int | None] = {
        journal[wait][STREAM]: None
    }  # streams that the wait blocks, each with the record through which it does
    held: dict[int, int | None] = {}  # the same for events
    free: set[int] = set()  # events with a record before the wait
    free.update(raw[EVENT] for raw in journal[:wait] if raw[KIND] == "mark")
    for at in range(wait + 1, query):
        raw = journal[at]
        if raw[KIND] == "mark":
            event = raw[EVENT]
            if raw[STREAM] not in behind:
                free.add(event)
                held.pop(event, None)
                continue
            by = behind[raw[STREAM]]
            held[event] = at if by is None and event in free else by
        elif raw[KIND] == "wait" and raw[EVENT] in held:
            behind.setdefault(raw[STREAM], held[raw[EVENT]])
    last = journal[query]
    if last[KIND] == "read":
        return behind.get(last[STREAM])
    return held.get(last[EVENT]) if last[KIND] == "ask" else None
