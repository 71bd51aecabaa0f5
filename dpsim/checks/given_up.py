"""Peers that stand in a communicator which another member has aborted; a part of deadlock.

All had joined what they stand in, and one of them left before it was over for all.
"""

from __future__ import annotations

from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.ops import ABORT_COMMUNICATOR, KIND, RawRecord
from dpsim.words import ranks_text

ABORTED = "HANG:COLLECTIVE:ABORTED"


def left_standing(run_index: RunIndex, blocked: list[int]) -> Finding | None:
    """A rank aborted a communicator in which a peer stands that has not, and where all had joined."""
    for communicator, members in run_index.aborted.items():
        stand = [rank for rank in blocked if rank in run_index.collectives[communicator] and rank not in members]
        if stand:
            rank = min(members)
            at = next(at for at, raw in enumerate(run_index.run.journals[rank]) if _aborts(raw, communicator))
            entry = Entry(rank, at, run_index.run.journals[rank][at])
            return Finding(
                check="deadlock",
                klass=ABORTED,
                message=f"{ranks_text(stand)} did not end, nor abort {communicator}, which rank {rank} aborted in step "
                f"{entry.step}",
                culprit=run_index.culprit(entry),
                position=run_index.position(entry),
            )
    return None


def _aborts(raw: RawRecord, communicator: str) -> bool:
    return bool(raw[KIND] == "abort" and raw[ABORT_COMMUNICATOR] == communicator)
