"""Stores: finds ranks that wait without end for a store to open its port, or for a key that no rank sets.

    rank 1 waits for a listener at port 5 of node 0               ->   HANG:STORE:NO_LISTENER, culprit rank 1
    rank 1 waits for key k, which no rank sets                    ->   HANG:STORE:NO_VALUE, culprit rank 1
    ranks 1, 2 wait for key address, and rank 0 sets adress       ->   the same, culprit rank 0
    only rank 1 waits for it                                      ->   the same, no culprit, both are named

A rank may have set a key whose spelling differs only a little. If no rank waits for that key, the check assumes a
spelling error. It blames the rank whose key no other rank uses, or whose spelling differs from that of other steps. If
other ranks got a key of such a spelling at the same site, it blames the rank that waits. A wait with a timeout returns
by itself, so it is no hang. If a rank joined a port that no rank opened, the check assumes that a program outside the
run listens there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from dpsim.checks.blame.places import form
from dpsim.checks.finding import Culprit, Fact, Finding, Part, also, fact
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    SITE,
    STEP,
    STORE_HOW,
    STORE_KEY,
    STORE_NODE,
    STORE_PORT,
    RawRecord,
    Stored,
    as_record,
)
from dpsim.contract.words import nearest

SETS = ("set", "add", "compare_set")
"""The calls that give a key a value."""

FEW = 2
"""The number of ranks that have to use one spelling, so that another one is wrong."""


def waiting(run_index: RunIndex) -> list[Finding]:
    """Returns a finding for each rank that waits at a store without end."""
    findings = []
    for rank, end in enumerate(run_index.run.ends):
        last = run_index.last(rank)
        if end != "blocked" or last is None:
            continue
        record = last.record
        if not isinstance(record, Stored) or record.how not in ("join", "get"):
            continue
        joins = record.how == "join"
        meant = None if joins else _meant(run_index, record)
        findings.append(
            Finding(
                check="deadlock",
                klass="HANG:STORE:NO_LISTENER" if joins else "HANG:STORE:NO_VALUE",
                message=(_no_listener if joins else _no_value)(run_index, rank, record),
                culprit=Culprit.of(rank, record),
                position=run_index.position(last),
            )
        )
        beside = () if joins else _beside(run_index, rank, record)
        if beside:
            findings[-1] = replace(findings[-1], ground=beside)
        elif meant is not None:
            findings[-1] = _misspelt(run_index, findings[-1], record, meant)
    return findings


def _beside(run_index: RunIndex, rank: int, wanted: Stored) -> tuple[Fact, ...]:
    uses = _uses(run_index, wanted.port)
    sets = {raw[STORE_KEY] for _, raw in uses if raw[STORE_HOW] in SETS}
    here = [
        (other, raw[STORE_KEY])
        for other, raw in uses
        if other != rank and raw[STORE_HOW] == "get" and (raw[SITE], raw[STEP]) == (wanted.site, wanted.step)
    ]
    keys = {key for _, key in here if key in sets and form(key) != form(wanted.key)}
    near = [] if wanted.key in sets | {key for _, key in here} else nearest(wanted.key, keys)
    if not near:
        return ()
    others = tuple(other for other, key in here if key == near[0])
    return (fact("got_key", ranks=others, key=near[0], site=wanted.site, step=wanted.step),)


def _misspelt(run_index: RunIndex, finding: Finding, wanted: Stored, meant: Meant) -> Finding:
    """Returns the finding with the rank that misspelt the key as its culprit; without one if that is not clear."""
    assert finding.culprit is not None
    waiter, uses = finding.culprit.rank, _uses(run_index, wanted.port)
    asked = {rank for rank, raw in uses if raw[STORE_KEY] == wanted.key and raw[STORE_HOW] not in SETS}
    wants, sets = _met(uses, wanted.key), _met(uses, meant.record.key)
    if wants == sets and len(asked) < FEW:
        why = fact("either_misspelt", unasked=meant.fact, rank=waiter)
        return replace(finding, message=also(finding.message, meant.fact), culprit=None, why=why)
    if sets and not wants:
        usual = fact("keys_met", rank=waiter, wanted=wanted.key, key=meant.record.key)
        return replace(finding, ground=(meant.fact, usual))
    return replace(finding, culprit=Culprit.of(meant.rank, meant.record), ground=(meant.fact,))


def _met(uses: list[tuple[int, RawRecord]], key: str) -> bool:
    alike = [raw for _, raw in uses if raw[STORE_KEY] != key and form(raw[STORE_KEY]) == form(key)]
    sets = {raw[STORE_KEY] for raw in alike if raw[STORE_HOW] in SETS}
    return any(raw[STORE_KEY] in sets for raw in alike if raw[STORE_HOW] not in SETS)


class Meant(NamedTuple):
    """A key that a rank set, perhaps with a spelling error."""

    rank: int
    record: Stored

    @property
    def fact(self) -> Fact:
        return fact("unasked_key", rank=self.rank, key=self.record.key)


def _meant(run_index: RunIndex, wanted: Stored) -> Meant | None:
    """Returns the key whose spelling is nearest to the wanted one, if no rank waits for that key; otherwise None.

    Keys that differ only in their numbers are the keys of different steps or ranks, and no spelling errors.
    """
    uses = _uses(run_index, wanted.port)
    asked = {raw[STORE_KEY] for _, raw in uses if raw[STORE_HOW] not in SETS}
    sets = {raw[STORE_KEY]: (rank, raw) for rank, raw in reversed(uses) if raw[STORE_HOW] in SETS}
    others = [key for key in sets if key not in asked and form(key) != form(wanted.key)]
    near = nearest(wanted.key, others)
    if not near or wanted.key in sets:
        return None
    rank, raw = sets[near[0]]
    record = as_record(raw)
    assert isinstance(record, Stored)
    return Meant(rank, record)


def _uses(run_index: RunIndex, port: int) -> list[tuple[int, RawRecord]]:
    """Returns the ranks that use keys of the stores at a port, with their records."""
    return [
        (rank, raw)
        for rank, journal in enumerate(run_index.run.journals)
        for raw in journal
        if raw[KIND] == "store" and raw[STORE_KEY] and raw[STORE_PORT] == port
    ]


def _no_listener(run_index: RunIndex, rank: int, record: Stored) -> Fact:
    left = tuple(listened(run_index, record.node, record.port))
    ports = {
        (port, one) for one, journal in enumerate(run_index.run.journals) for port in _opened(journal, record.node)
    }
    why = fact("listened_and_left", ranks=left) if left else fact("listened_elsewhere", there=_at_ports(ports))
    return fact("no_listener", rank=rank, wait=record, why=why)


def _no_value(run_index: RunIndex, rank: int, record: Stored) -> Part:
    sets = [
        (raw[STORE_PORT], one)
        for one, journal in enumerate(run_index.run.journals)
        for raw in journal
        if raw[KIND] == "store" and raw[STORE_HOW] in SETS and raw[STORE_KEY] == record.key
    ]
    ranks = tuple(listened(run_index, record.node, record.port))
    return also(
        fact("no_value", rank=rank, wait=record, unset=not sets),
        fact("listened", ranks=ranks, port=record.port, node=record.node)
        if ranks
        else fact("another_listens", port=record.port, node=record.node),
        fact("key_was_set", number=len(sets), where=_at_ports({*sets})) if sets else "",
    )


def _at_ports(ports: set[tuple[int, int]]) -> tuple[Fact, ...]:
    return tuple(fact("at_port", rank=rank, port=port) for port, rank in sorted(ports))


def listened(run_index: RunIndex, node: int, port: int) -> list[int]:
    """Returns the ranks that listened at a port."""
    return [rank for rank, journal in enumerate(run_index.run.journals) if port in _opened(journal, node)]


def _opened(journal: list[RawRecord], node: int) -> set[int]:
    """Returns the ports of a node at which a rank listened."""
    asked = {
        raw[ADDRESS] for raw in journal if raw[KIND] == "store" and raw[STORE_HOW] == "open" and raw[STORE_NODE] == node
    }
    outcomes = (raw[LEARNED_OUTCOME] for raw in journal if raw[KIND] == "learned" and raw[ADDRESS] in asked)
    return {port for port in outcomes if port is not None}
