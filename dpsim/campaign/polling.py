"""A loop that polls: each look is a choice of the schedule, so a search of such a world has no end in sight.

    polls = Polls()
    polls.note(run.journals)        # after each run, whole or cut off
    polls.text                      # "rank 0 polls in a loop at poll, reload.py:35: ..."; empty where none does

A *look* asks and does not wait: a `get` of a store with time-out 0, a poll, or a query. A loop polls if a thread looks
at one site `MANY` times in one step and gets the same answer each time. Sleeps between two looks do not count. If the
thread learns something elsewhere, the count begins anew. So a program that looks once a step, or gives up after a few
looks, has no such loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.ops import (
    ASK_HOW,
    FLAG_HOW,
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
"""By the kind of a look: what waits."""


class Polls:
    """The first loop that polls in the runs of a search."""

    def __init__(self) -> None:
        self.text = ""

    def note(self, journals: Sequence[Sequence[RawRecord]]) -> None:
        """Read a run, unless a loop is known."""
        for rank, journal in enumerate(journals):
            if self.text or len(journal) < 2 * MANY:
                continue
            look = loop(journal)
            if look is not None:
                why = f"each look is a choice of the schedule; poll once a step, or {INSTEAD[look[KIND]]}"
                self.text = f"{ranks_text([rank])} polls in a loop at {look[SITE]}, {look[WHERE]}: {why}"


def loop(journal: Sequence[RawRecord]) -> RawRecord | None:
    """The look that comes again and again; None if there is none."""
    under_way: dict[str, RawRecord] = {}
    seen: dict[str, tuple[object, int]] = {}  # of each thread, the last answer and how often it came
    for raw in journal:
        thread = raw[THREAD]
        if raw[KIND] != "learned":
            under_way[thread] = raw
            continue
        asked = under_way.get(thread)
        if asked is None or asked[KIND] == "sleep":
            continue
        if not _looks(asked):
            seen.pop(thread, None)
            continue
        answer = asked[SITE], asked[STEP], repr(raw[LEARNED_OUTCOME])
        before, times = seen.get(thread, (None, 0))
        seen[thread] = answer, times + 1 if before == answer else 1
        if seen[thread][1] >= MANY:
            return asked
    return None


def _looks(raw: RawRecord) -> bool:
    kind = raw[KIND]
    if kind == "store":
        return bool(raw[STORE_HOW] == "get" and raw[STORE_VALUE] == 0)
    if kind == "take":
        return bool(raw[TAKE_HOW] == "poll" or raw[TAKE_TIMEOUT] == 0)
    if kind in ("ask", "flag"):
        return bool(raw[ASK_HOW if kind == "ask" else FLAG_HOW] == "query")
    return bool(kind == "look" and raw[LOOK_TIMEOUT] is None)
