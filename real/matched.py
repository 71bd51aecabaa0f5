"""Whether anything of a job may be left on its communicators: what a rank sent and no rank received.

A run can finish although its ranks did not make the same calls. A broadcast is over for its root once the library has
taken the data, and so is a send. Data that no rank received lies there, and would be the first that a rank receives on
that communicator in the next job.

    all_matched(journals, world)        # False: use none of its communicators again
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
    """Whether on each communicator all members made the same collectives, and each send had its receive."""
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
