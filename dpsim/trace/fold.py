"""Splits the journal of a rank into the sequences of its actors: communicators, streams, threads, decisions, outcomes.

    communicators(journal)["dp_cpu"]      # the collectives on dp_cpu
    threads(journal)["u1"]                # the ops of a host thread
    decisions(journal)["plan"]            # the values that the rank decided under the label plan

In a run on gloo or NCCL, no clock orders the ops of a rank's threads and streams. So dpsim compares two runs one such
sequence at a time. A sequence has the order of issue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dpsim.contract.ops import COMMUNICATOR, KIND, RECORDS, SITE, STREAM, THREAD, RawRecord

Sequences: TypeAlias = dict[str, list[RawRecord]]
"""For each actor its records, in the order of issue. The actors are in the order of their first record."""

_ON_STREAMS = {kind for kind, cls in RECORDS.items() if "stream" in cls._fields}


def communicators(journal: Iterable[RawRecord]) -> Sequences:
    """Returns the collectives and transfers on each communicator, of hosts and devices."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[KIND] == "collective":
            sequences.setdefault(raw[COMMUNICATOR], []).append(raw)
    return sequences


def streams(journal: Iterable[RawRecord]) -> Sequences:
    """Returns the ops on each stream: kernels, device collectives, reads, allocations and frees."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[KIND] in _ON_STREAMS and raw[STREAM] is not None:
            sequences.setdefault(raw[STREAM], []).append(raw)
    return sequences


def decisions(journal: Iterable[RawRecord]) -> Sequences:
    """Returns the decisions of each label."""
    sequences: Sequences = {}
    for raw in journal:
        if raw[KIND] == "decision":
            sequences.setdefault(raw[SITE], []).append(raw)
    return sequences


def threads(journal: Iterable[RawRecord]) -> Sequences:
    """Returns the ops of each host thread."""
    sequences: Sequences = {}
    for raw in journal:
        sequences.setdefault(raw[THREAD], []).append(raw)
    return sequences


def outcomes(journal: Iterable[RawRecord]) -> list[RawRecord]:
    """Returns the records of what the host learned: the results of host collectives and of reads."""
    return [raw for raw in journal if raw[KIND] == "learned"]
