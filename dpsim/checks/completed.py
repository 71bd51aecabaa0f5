"""What journals say together: the transfer that each receive from any source turned out to be.

A rank journals such a receive when it calls it, and does not know yet who sends. What it learned has the source. So the
receive takes the next place in the line of that rank, and from here on it is a transfer like any other. One of which
nothing was learned stays as it is.

    run = completed(run)            # the same run, where there is no such receive
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dpsim.contract.ops import (
    ADDRESS,
    ANY_COMMUNICATOR,
    ANY_COUNT,
    ANY_DTYPE,
    BROKEN_OFF,
    COMMUNICATOR,
    KIND,
    LEARNED_OUTCOME,
    OP,
    STREAM,
    TRANSFER_PEER,
    WHERE,
    RawRecord,
)
from dpsim.contract.world import Run


def completed(run: Run) -> Run:
    """The run with journals of which each receive from any source that took a message is a transfer."""
    if not any(raw[KIND] == "receive_any" for journal in run.journals for raw in journal):
        return run
    return replace(run, journals=[_with_sources(journal) for journal in run.journals])


def _with_sources(journal: list[RawRecord]) -> list[RawRecord]:
    if not any(raw[KIND] == "receive_any" for raw in journal):
        return journal
    sources = sources_of(journal)
    lines: Counter[tuple[str, int]] = Counter()
    rows = []
    for at, raw in enumerate(journal):
        if raw[KIND] == "transfer" and raw[STREAM] is None and raw[OP] == "recv":
            lines[raw[COMMUNICATOR], raw[TRANSFER_PEER]] += 1
        elif at in sources:
            line = raw[ANY_COMMUNICATOR], sources[at]
            called = None, line[0], lines[line], "recv", raw[ANY_COUNT], raw[ANY_DTYPE], line[1], None, (), ()
            lines[line] += 1
            raw = "transfer", *raw[1 : WHERE + 1], *called
        rows.append(raw)
    return rows


def sources_of(journal: Sequence[RawRecord]) -> dict[int, int]:
    """By place in a rank's journal: the rank whose message a receive from any source took."""
    begun: dict[object, int] = {}
    sources: dict[int, int] = {}
    for at, raw in enumerate(journal):
        if raw[KIND] == "receive_any":
            begun[raw[ADDRESS]] = at
        elif raw[KIND] == "learned" and raw[ADDRESS] in begun:
            outcome = raw[LEARNED_OUTCOME]
            if outcome != BROKEN_OFF:
                sources[begun.pop(raw[ADDRESS])] = outcome[0]
    return sources
