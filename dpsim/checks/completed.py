"""Facts from several records: communicators that ranks made, and the transfer that a receive from any source became.

A rank journals such a receive at its call, before it knows the sender. The learned value has the source. So the receive
takes the next place in the line of that sender, and from here on it is an ordinary transfer. A receive without a
learned value does not change.

    world, run = completed(world, run)          # the same ones, if there is no such record
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dpsim.contract.ops import (
    ANY_COMMUNICATOR,
    ANY_COUNT,
    ANY_DTYPE,
    COMMUNICATOR,
    KIND,
    OP,
    STREAM,
    TRANSFER_PEER,
    WHERE,
    RawRecord,
)
from dpsim.contract.rules.made_groups import with_made
from dpsim.contract.rules.sources import sources_of
from dpsim.contract.world import Run, World


def completed(world: World, run: Run) -> tuple[World, Run]:
    """The world with the communicators of the run, and the run with a transfer for each receive that took a message."""
    kinds = {raw[KIND] for journal in run.journals for raw in journal}
    if "group" in kinds:
        world = with_made(world, run.journals)
    if "receive_any" in kinds:
        run = replace(run, journals=[_with_sources(journal) for journal in run.journals])
    return world, run


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
