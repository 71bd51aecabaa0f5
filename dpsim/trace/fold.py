"""A rank's journal seen from its actors: communicators, streams, decisions, outcomes.

A real backend has no global order of its ops, so runs are compared actor by actor. Each function here splits one
journal into the sequences of its actors of one kind, in issue order; the records are those of the journal.

    communicators(journal)["dp_cpu"]      # the collectives on dp_cpu
    threads(journal)["u1"]                # all that a host thread did
    decisions(journal)["plan"]            # what the rank decided as its plan, step by step
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dpsim.contract.ops import COMMUNICATOR, KIND, RECORDS, SITE, STREAM, THREAD, RawRecord

Sequences: TypeAlias = dict[str, list[RawRecord]]
"""Actor -> its records, in issue order. Actors are in order of their first record."""

_ON_STREAMS = {kind for kind, cls in RECORDS.items() if "stream" in cls._fields}


def communicators(journal: Iterable[RawRecord]) -> Sequences:
    """Collectives, by communicator: host and device domain alike."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[KIND] == "collective":
            sequences.setdefault(raw[COMMUNICATOR], []).append(raw)
    return sequences


def streams(journal: Iterable[RawRecord]) -> Sequences:
    """What was put on each stream: kernels, device collectives, reads, allocations and frees."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[KIND] in _ON_STREAMS and raw[STREAM] is not None:
            sequences.setdefault(raw[STREAM], []).append(raw)
    return sequences


def decisions(journal: Iterable[RawRecord]) -> Sequences:
    """Decisions, by label."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[KIND] == "decision":
            sequences.setdefault(raw[SITE], []).append(raw)
    return sequences


def threads(journal: Iterable[RawRecord]) -> Sequences:
    """What each host thread did."""
    sequences: Sequences = {}
    for raw in journal:
        sequences.setdefault(raw[THREAD], []).append(raw)
    return sequences


def outcomes(journal: Iterable[RawRecord]) -> list[RawRecord]:
    """What the host learned: results of host collectives and of reads."""
    return [raw for raw in journal if raw[KIND] == "learned"]
