"""An event that is recorded again behind a wait: what a host asks for is held up by a record that was not meant.

A host that waits for an event waits for its last record. Where that lies behind a stream's wait for a flag, and the
host sets the flag only after it has waited, both stand. The record before would have let the host go on.

    main        record e   side waits for f   record e again on side   synchronize e   set f: it never reaches this

The walk here goes through the records of one rank in their order. It knows of the order within a stream and of waits
for events. A device communicator orders streams, too; what is held up by that alone is not found here.
"""

from __future__ import annotations

from dpsim.contract.ops import EVENT, KIND, STREAM, RawRecord


def recorded_again(journal: list[RawRecord], wait: int, asked: int) -> int | None:
    """The record of an event, by its index, but for which the host would not stand behind a stream's wait. `wait`: that
    of the stream; `asked`: the read or synchronisation in which the host stands. None: it stands elsewhere, or no event
    was recorded again.
    """
    behind: dict[str, int | None] = {journal[wait][STREAM]: None}  # streams, with what brought the wait there
    held: dict[int, int | None] = {}  # the same of events, as recorded last
    free: set[int] = set()  # events with a record that is not behind the wait
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
