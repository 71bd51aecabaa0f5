"""Counts how many ops each peer of a dead actor (a rank or service) makes before it gets the notice of the death.

    ops_until_notice(run.journals, 1)                     # {0: 4, 2: 7}
    notices_text(run, 1)           # "rank 1 is gone: told were rank 0 within 4 ops, rank 2 within 7 ops; K = 7"

The journals of two ranks have no common clock, so the count is an upper bound. A peer's ops count after the last host
collective that the dead actor had awaited. Sleeps, results of calls, decisions and probes do not count. Prior art: the
detection time of failure detectors (Chandra and Toueg, JACM 43, 1996), in steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.kinds import SILENT
from dpsim.contract.ops import ADDRESS, COMMUNICATOR, KIND, LEARNED_OUTCOME, SEQ, STREAM, RawRecord
from dpsim.contract.world import Run


def ops_until_notice(journals: Sequence[Sequence[RawRecord]], gone: int) -> dict[int, int]:
    """Returns for each rank or service with a notice of an actor's end the largest number of ops that it made before.
    Actors without a notice are omitted.
    """
    heard = _heard(journals[gone])
    found = {}
    for rank, journal in enumerate(journals):
        if rank == gone:
            continue
        ops = 0
        for raw in journal:
            if raw[KIND] == "learned" and raw[LEARNED_OUTCOME] == ("gone", gone):
                found[rank] = ops
                break
            ops += raw[KIND] not in SILENT
            if raw[KIND] == "collective" and (raw[COMMUNICATOR], raw[SEQ]) in heard:
                ops = 0
    return found


def notices_text(run: Run, gone: int) -> str:
    """Returns the counts of `ops_until_notice` as one line, with the largest one, K."""

    def name(actor: int) -> str:
        return f"rank {actor}" if actor < run.size else run.services[actor - run.size]

    counts = ops_until_notice(run.journals, gone)
    if not counts:
        return f"{name(gone)}: no rank learned of its end"
    each = ", ".join(f"{name(actor)} within {count} ops" for actor, count in counts.items())
    return f"{name(gone)} is gone: told were {each}; K = {max(counts.values())}"


def _heard(journal: Sequence[RawRecord]) -> set[tuple[str, int]]:
    """Returns the host collectives whose end an actor had observed, as (communicator, seq)."""
    begun, heard = {}, set()
    for raw in journal:
        if raw[KIND] == "collective" and raw[STREAM] is None:
            begun[raw[ADDRESS]] = raw[COMMUNICATOR], raw[SEQ]
        elif raw[KIND] == "learned" and raw[ADDRESS] in begun and type(raw[LEARNED_OUTCOME]) is int:
            heard.add(begun[raw[ADDRESS]])
    return heard
