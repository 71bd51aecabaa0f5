"""Timeouts: lists the waits of a run that timed out, because a rank that gave up explains many later events.

    rank 1 waited 50 ms for 'answer'; the time-out passed (answer[0], programs.py:67)
    rank 0 waited 30000 ms for all_reduce #4 on world; the time-out passed (look[0], train.py:9)

The journals of every backend show two kinds: a get that returned no message, and a wait for a call that returned False.
A wait at a store may return nothing after a timeout or after its listener left. So this module leaves stores out.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.kinds import MEETS, TIMEOUT, timeout_ns
from dpsim.contract.ops import (
    ADDRESS,
    COMMUNICATOR,
    KIND,
    LEARNED_OUTCOME,
    LOOK_NUMBER,
    LOOK_OF,
    OP,
    ORDINAL,
    SEQ,
    SITE,
    TAKE_MAILBOX,
    WHERE,
    RawRecord,
)
from dpsim.contract.words import counted
from dpsim.contract.world import Run

SHOWN = 10
"""The largest number of timeouts in the result. A rank that polls with a timeout has many."""


def passed_timeouts(run: Run) -> list[str]:
    """Returns a line for each of the first timeouts, and the number of others."""
    lines = []
    for rank, journal in enumerate(run.journals):
        waiting: dict[tuple[object, ...], RawRecord] = {}
        for raw in journal:
            if raw[KIND] in TIMEOUT and timeout_ns(raw) is not None:
                waiting[raw[ADDRESS]] = raw
            elif raw[KIND] == "learned" and raw[ADDRESS] in waiting:
                waited = waiting.pop(raw[ADDRESS])
                if raw[LEARNED_OUTCOME] is (None if waited[KIND] == "take" else False):
                    lines.append(_line(rank, waited, journal))
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], *[f"and {counted(more, 'more time-out')}"] * (more > 0)]


def _line(rank: int, waited: RawRecord, journal: Sequence[RawRecord]) -> str:
    taken = waited[KIND] == "take"
    most, where = waited[TIMEOUT[waited[KIND]]], f"{waited[SITE]}[{waited[ORDINAL]}]"
    place = f"{where}, {waited[WHERE]}" if waited[WHERE] else where
    what = repr(waited[TAKE_MAILBOX]) if taken else _call(waited, journal)
    return f"rank {rank} waited {most / 1e6:g} ms for {what}; the time-out passed ({place})"


def _call(look: RawRecord, journal: Sequence[RawRecord]) -> str:
    """Returns the call that a rank waited for: its number on the communicator, or its site."""
    site, number = look[LOOK_OF], look[LOOK_NUMBER]
    calls = (raw for raw in journal if raw[KIND] in MEETS and raw[SITE : ORDINAL + 1] == (site, number))
    call = next(calls, None)
    return f"{site}[{number}]" if call is None else f"{call[OP]} #{call[SEQ]} on {call[COMMUNICATOR]}"
