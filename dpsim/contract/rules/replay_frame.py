"""The graph replay to which a record belongs. Findings and reports print it with the record's place.

In a journal, a graph replay is one record, and the records of its calls follow it. These have the sites of the capture,
so they do not name the replay. After the calls follows one record of an event, for which the next replay of the graph
waits.

    replay 2 of graph decode (2 calls)     launch attention    all_reduce experts    mark       <- all four belong to it
    read out                                                                                    <- this does not
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.kinds import LAUNCHED, MEMORY
from dpsim.contract.ops import KIND, REPLAY_CALLS, RawRecord, Replay

UNCOUNTED = MEMORY
"""Kinds of record that may lie between those of a replay, and that its number of calls does not include."""

MADE = UNCOUNTED | LAUNCHED
"""Kinds of record that a replay makes."""


def replay_at(journal: Sequence[RawRecord], at: int) -> int | None:
    """Returns the index of the replay to which the record at an index belongs. It is the index itself for a replay, and
    None if there is none.
    """
    counted = 0
    for before in range(at, -1, -1):
        kind = journal[before][KIND]
        if kind == "replay":
            left = journal[before][REPLAY_CALLS] + 1 - counted
            return before if left > 0 or (left == 0 and journal[at][KIND] == "mark") else None
        if kind not in MADE:
            return None
        counted += kind not in UNCOUNTED
    return None


def within(journal: Sequence[RawRecord], at: int) -> str:
    """Returns a text about the replay to which a record belongs; empty if there is none.

    >>> replay = ("replay", 4, "main", "decode.go", 2, "p.py:23", "main", "decode", 2, 1)
    >>> launch = ("launch", 4, "main", "mlp", 7, "p.py:9", "main", (), ())
    >>> within([replay, launch], 1), within([launch], 0)
    ('replay 2 of graph decode (decode.go[2] at p.py:23)', '')
    """
    of = replay_at(journal, at)
    if of is None or of == at:
        return ""
    replay = Replay._make(journal[of])
    where = f" at {replay.where}" if replay.where else ""
    return f"replay {replay.number} of graph {replay.graph} ({replay.site}[{replay.ordinal}]{where})"
