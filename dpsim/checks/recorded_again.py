"""An event that a stream records again behind a wait: the second record makes a host hang.

`event.synchronize()` waits for the event's most recent record. In the failure below, that record lies on a stream
behind a wait for a flag. The host sets this flag only after `synchronize` returns. So the stream and the host both
hang. The event's earlier record is not behind the wait: without the later record, the host would continue.

    main        record e   side waits for f   record e again on side   synchronize e   set f: it never reaches this

This module goes through the records of one rank in their order. It uses the order within a stream and the waits for
events. A device communicator orders streams, too, and this module misses hangs that only this order causes.
"""

from __future__ import annotations

from dpsim.contract.ops import EVENT, KIND, STREAM, RawRecord


def recorded_again(journal: list[RawRecord], wait: int, asked: int) -> int | None:
    """The index of the event's record without which the host would not wait behind a stream's wait. `wait`: the wait of
    the stream; `asked`: the read or synchronisation in which the host stands. None: the host stands elsewhere, or no
    stream recorded an event again.
    """
    behind: dict[str, int | None] = {
        journal[wait][STREAM]: None
    }  # streams behind the wait, each with the record that put it there
    held: dict[int, int | None] = {}  # the same for events, by their last records
    free: set[int] = set()  # events with a record before the wait
    free.update(raw[EVENT] for raw in journal[:wait] if raw[KIND] == "mark")
    for at in range(wait + 1, asked):
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
    last = journal[asked]
    if last[KIND] == "read":
        return behind.get(last[STREAM])
    return held.get(last[EVENT]) if last[KIND] == "ask" else None
