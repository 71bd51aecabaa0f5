"""Whether a job left anything on its communicators: data that a rank sent and no rank received.

A run can finish although its ranks did not make the same calls. For its root, a broadcast ends when the library has
taken the data, and so does a send. If no rank receives that data, it remains there. It would be the first data that a
rank receives on that communicator in the next job.

    all_matched(journals, world)        # False: the next job must not use these communicators
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.ops import (
    ANY_COMMUNICATOR,
    ANY_COUNT,
    ANY_DTYPE,
    COLLECTIVE_ROOT,
    COMMUNICATOR,
    COUNT,
    DTYPE,
    KIND,
    OP,
    TRANSFER_PEER,
    RawRecord,
)
from dpsim.contract.rules.sources import sources_of
from dpsim.contract.world import World


def all_matched(journals: Sequence[Sequence[RawRecord]], world: World) -> bool:
    """Whether all members made the same collectives on each communicator, and each send had its receive."""
    calls: dict[tuple[str, int], list[Any]] = defaultdict(list)
    moves: Counter[Any] = Counter()
    for actor, journal in enumerate(journals):
        sources = sources_of(journal)
        for at, record in enumerate(journal):
            kind = record[KIND]
            if kind == "collective":
                op = record[OP]
                count = record[COUNT] if COLLECTIVES[op].even else None
                calls[record[COMMUNICATOR], actor].append((op, count, record[DTYPE], record[COLLECTIVE_ROOT]))
            elif kind == "receive_any":
                if at not in sources:
                    return False
                moves[record[ANY_COMMUNICATOR], (sources[at], actor), record[ANY_COUNT], record[ANY_DTYPE]] -= 1
            elif kind == "transfer":
                way, peer = (1, (actor, record[TRANSFER_PEER])) if record[OP] == "send" else (-1, None)
                moves[record[COMMUNICATOR], peer or (record[TRANSFER_PEER], actor), record[COUNT], record[DTYPE]] += way
    if any(moves.values()):
        return False
    return all(
        calls[spec.name, member] == calls[spec.name, spec.ranks[0]]
        for spec in world.communicators
        for member in spec.ranks[1:]
    )
