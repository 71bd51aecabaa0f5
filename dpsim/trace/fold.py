"""A rank's journal seen from its actors: communicators, streams, decisions, outcomes.

A real backend has no global order of its ops, so runs are compared actor by actor. Each function here splits one
journal into the sequences of its actors of one kind, in issue order; the records are those of the journal.

    >>> agree = ("collective", 0, "dp.agree", 0, "", None, "dp_cpu", 0, "all_reduce", 8, "int32", None)
    >>> plan = ("decision", 0, "plan", 0, "", "dp_cpu", (False, (8, 8), 2))
    >>> communicators([agree, plan]) == {"dp_cpu": [agree]}, decisions([agree, plan]) == {"plan": [plan]}
    (True, True)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dpsim.ops import RECORDS, RawRecord

Sequences: TypeAlias = dict[str, list[RawRecord]]
"""Actor -> its records, in issue order. Actors are in order of their first record."""

_STREAM = {kind: cls._fields.index("stream") for kind, cls in RECORDS.items() if "stream" in cls._fields}
_COMMUNICATOR = RECORDS["collective"]._fields.index("communicator")


def communicators(journal: Iterable[RawRecord]) -> Sequences:
    """Collectives, by communicator: host and device domain alike."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[0] == "collective":
            sequences.setdefault(raw[_COMMUNICATOR], []).append(raw)
    return sequences


def streams(journal: Iterable[RawRecord]) -> Sequences:
    """What was put on each stream: kernels, device collectives, reads, allocations and frees."""
    sequences: Sequences = {}
    for raw in journal:
        at = _STREAM.get(raw[0])
        if at is not None and raw[at] is not None:
            sequences.setdefault(raw[at], []).append(raw)
    return sequences


def decisions(journal: Iterable[RawRecord]) -> Sequences:
    """Decisions, by label."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[0] == "decision":
            sequences.setdefault(raw[2], []).append(raw)
    return sequences


def outcomes(journal: Iterable[RawRecord]) -> list[RawRecord]:
    """What the host learned: results of host collectives and of reads."""
    return [raw for raw in journal if raw[0] == "learned"]
