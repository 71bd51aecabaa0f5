"""Polling: finds a loop that polls. Each poll is one more choice of the schedule, so a search hardly ends.

    polls = Polls()
    polls.note(run.journals)        # after each run, whole or cut off
    polls.text                      # "rank 0 polls in a loop at poll, reload.py:35: ..."; empty where none does

A *look* is a call that does not wait: a poll, a query, or a `get` of a store with timeout 0. A thread polls in a loop
if it makes `MANY` looks in a row in one step, at one site and with equal results. Sleeps between looks do not matter,
but any other call that returns a value ends the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.kinds import HOW, POLLS
from dpsim.contract.ops import (
    KIND,
    LEARNED_OUTCOME,
    LOOK_TIMEOUT,
    SITE,
    STEP,
    STORE_HOW,
    STORE_VALUE,
    TAKE_HOW,
    TAKE_TIMEOUT,
    THREAD,
    WHERE,
    RawRecord,
)
from dpsim.contract.words import ranks_text

MANY = 20
INSTEAD = {
    "store": "wait with `get` and a longer time-out",
    "take": "wait with `get`",
    "ask": "wait with `synchronize`",
    "flag": "wait with `wait`",
    "look": "await its result",
}
"""The call that waits instead, by the kind of a look."""


class Polls:
    """The first loop that polls in the runs of a search."""

    def __init__(self) -> None:
        self.text = ""

    def note(self, journals: Sequence[Sequence[RawRecord]]) -> None:
        """Reads the journals of a run, unless a loop is known already."""
        for rank, journal in enumerate(journals):
            if self.text or len(journal) < 2 * MANY:
                continue
            look = loop(journal)
            if look is not None:
                why = f"each poll is a choice of the schedule; poll once a step, or {INSTEAD[look[KIND]]}"
                self.text = f"{ranks_text([rank])} polls in a loop at {look[SITE]}, {look[WHERE]}: {why}"


def loop(journal: Sequence[RawRecord]) -> RawRecord | None:
    """Returns the look that a thread repeats, or None."""
    under_way: dict[str, RawRecord] = {}
    seen: dict[str, tuple[object, int]] = {}  # by thread: the last result, and how often it came
    for raw in journal:
        thread = raw[THREAD]
        if raw[KIND] != "learned":
            under_way[thread] = raw
            continue
        pending = under_way.get(thread)
        if pending is None or pending[KIND] == "sleep":
            continue
        if not _looks(pending):
            seen.pop(thread, None)
            continue
        answer = pending[SITE], pending[STEP], repr(raw[LEARNED_OUTCOME])
        before, times = seen.get(thread, (None, 0))
        seen[thread] = answer, times + 1 if before == answer else 1
        if seen[thread][1] >= MANY:
            return pending
    return None


def _looks(raw: RawRecord) -> bool:
    kind = raw[KIND]
    if kind == "store":
        return bool(raw[STORE_HOW] == "get" and raw[STORE_VALUE] == 0)
    if kind == "take":
        return bool(raw[TAKE_HOW] == "poll" or raw[TAKE_TIMEOUT] == 0)
    if kind == "look":
        return raw[LOOK_TIMEOUT] is None
    return kind in POLLS and bool(raw[HOW[kind]] == "query")
