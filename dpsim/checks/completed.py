"""Completed: adds what only several records together show, so that checks see ordinary transfers and communicators.

A rank journals a receive from any source when it calls it, before it has a sender. The record of the result contains
the sender. So this module replaces the receive by an ordinary transfer from that sender, with the next sequence number.
A receive without a result stays as it is. The module also adds the communicators that ranks made during the run.

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
    """Returns the world with the communicators of the run, and the run with a transfer for each such receive."""
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
