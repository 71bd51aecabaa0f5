"""Time-outs that passed in a run, in words: a rank that gave up explains many later events.

    rank 1 waited 50 ms for 'answer'; the time-out passed (answer[0], programs.py:67)

The journal has them on every backend: a get with a time-out that learned nothing. The value of a store does not show
whether a time-out passed or the listener left, so this module leaves stores out.
"""

from __future__ import annotations

from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    ORDINAL,
    SITE,
    TAKE_MAILBOX,
    TAKE_TIMEOUT,
    WHERE,
    RawRecord,
)
from dpsim.contract.world import Run

SHOWN = 10
"""The number of time-outs of a run that are shown, because a rank that asks every second has many."""


def passed_timeouts(run: Run) -> list[str]:
    """A line for each of the first ones."""
    lines = []
    for rank, journal in enumerate(run.journals):
        waiting: dict[tuple[object, ...], RawRecord] = {}
        for raw in journal:
            if raw[KIND] == "take" and raw[TAKE_TIMEOUT] is not None:
                waiting[raw[ADDRESS]] = raw
            elif raw[KIND] == "learned" and raw[LEARNED_OUTCOME] is None and raw[ADDRESS] in waiting:
                lines.append(_line(rank, waiting.pop(raw[ADDRESS])))
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], *[f"and {more} more"] * (more > 0)]


def _line(rank: int, take: RawRecord) -> str:
    waited, where = f"{take[TAKE_TIMEOUT] / 1e6:g} ms", f"{take[SITE]}[{take[ORDINAL]}]"
    place = f"{where}, {take[WHERE]}" if take[WHERE] else where
    return f"rank {rank} waited {waited} for {take[TAKE_MAILBOX]!r}; the time-out passed ({place})"
