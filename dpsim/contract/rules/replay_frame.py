"""The replay of a graph to which a record belongs, for findings, reports and positions of ranks.

A replay is one record, and the records of its calls follow it. These are at the sites of the capture, so they do not
name the replay. Behind the calls comes one mark, for the next replay of the graph.

    replay 2 of graph decode (2 calls)     launch attention    all_reduce experts    mark       <- all four belong to it
    read out                                                                                    <- this does not
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.ops import KIND, REPLAY_CALLS, RawRecord, Replay

UNCOUNTED = frozenset({"alloc", "free"})
"""Kinds of record that stand among those of a replay, without counting there."""

MADE = UNCOUNTED | {"launch", "collective", "transfer", "mark", "wait", "flag_wait"}
"""Kinds of record that a replay makes."""


def replay_at(journal: Sequence[RawRecord], at: int) -> int | None:
    """The index of the replay of the record at an index; the index itself for a replay, None if there is none."""
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
    """The replay of a record, in words; empty if there is none.

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
