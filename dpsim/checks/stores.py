"""Stores: who stands for ever at a port where nobody listens, or at a key that nobody sets.

    rank 1 waits for somebody to listen at port 5 of node 0       ->   HANG:STORE:NO_LISTENER, culprit rank 1
    rank 1 waits for key k at port 5 of node 0                    ->   HANG:STORE:NO_VALUE, culprit rank 1

A wait with a time-out ends when nothing else can happen, and is no hang. Who listens is read off the journals; a port
at which somebody was joined, and nobody of the world listens, is another program's.
"""

from __future__ import annotations

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    STORE_HOW,
    STORE_KEY,
    STORE_NODE,
    STORE_PORT,
    RawRecord,
    Stored,
)
from dpsim.contract.words import ranks_text, times


def waiting(run_index: RunIndex) -> list[Finding]:
    """A finding for each rank that stands at a store."""
    findings = []
    for rank, end in enumerate(run_index.run.ends):
        last = run_index.last(rank)
        if end != "blocked" or last is None:
            continue
        record = last.record
        if not isinstance(record, Stored) or record.how not in ("join", "get"):
            continue
        place = f"port {record.port} of node {record.node}"
        what = f"for somebody to listen at {place}" if record.how == "join" else f"for key {record.key} at {place}"
        why = _listeners(run_index, record) if record.how == "join" else _setters(run_index, record)
        findings.append(
            Finding(
                check="deadlock",
                klass="HANG:STORE:NO_LISTENER" if record.how == "join" else "HANG:STORE:NO_VALUE",
                message=f"rank {rank} waits {what} ({record.site}, step {record.step}); {why}",
                culprit=Culprit.of(rank, record),
                position=run_index.position(last),
            )
        )
    return findings


def _listeners(run_index: RunIndex, record: Stored) -> str:
    """Who listened there, and who listens elsewhere on that node."""
    came = listened(run_index, record.node, record.port)
    if came:
        return f"{ranks_text(came)} listened there, and left"
    ports = sorted(
        {(port, rank) for rank, journal in enumerate(run_index.run.journals) for port in _opened(journal, record.node)}
    )
    there = ", ".join(f"rank {rank} at port {port}" for port, rank in ports)
    return f"nobody did; on that node listened: {there or 'nobody'}"


def _setters(run_index: RunIndex, record: Stored) -> str:
    """Who listens there, and who set the key, wherever that was."""
    came = listened(run_index, record.node, record.port)
    sets = [
        (raw[STORE_PORT], rank)
        for rank, journal in enumerate(run_index.run.journals)
        for raw in journal
        if raw[KIND] == "store" and raw[STORE_HOW] == "set" and raw[STORE_KEY] == record.key
    ]
    who = f"{ranks_text(came)} listened there" if came else "another program listens there"
    if not sets:
        return f"{who}, and nobody set the key"
    elsewhere = ", ".join(f"rank {rank} at port {port}" for port, rank in sorted(set(sets)))
    return f"{who}; the key was set {times(len(sets))}, by {elsewhere}"


def listened(run_index: RunIndex, node: int, port: int) -> list[int]:
    """Who came to listen at a port."""
    return [rank for rank, journal in enumerate(run_index.run.journals) if port in _opened(journal, node)]


def _opened(journal: list[RawRecord], node: int) -> set[int]:
    """The ports of a node at which a rank came to listen."""
    asked = {
        raw[ADDRESS] for raw in journal if raw[KIND] == "store" and raw[STORE_HOW] == "open" and raw[STORE_NODE] == node
    }
    outcomes = (raw[LEARNED_OUTCOME] for raw in journal if raw[KIND] == "learned" and raw[ADDRESS] in asked)
    return {port for port in outcomes if port is not None}
