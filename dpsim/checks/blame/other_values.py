"""Other values: a culprit that received another value than its peers may be a victim of the rank that sent it.

    step 1   ranks 0 to 2   hear -> 1   sum   meet
    step 2   ranks 0, 1     hear -> 1   sum   meet
             rank 2         hear -> 0         meet      rank 2 left out sum, and may be a victim

A rank may decide by a received value whether it makes a call. So the pass compares the values that the culprit received
in its step, up to the first op in which it differs from a peer. If two peers or more received one other value there,
the ground says so. In all other steps, the culprit and these peers must have received equal values at this site.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpsim.checks.finding import Culprit, Finding, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.kinds import RECEIVES
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, SITE, STEP
from dpsim.contract.words import ranks_text

OF_CALLS = ("HANG:COLLECTIVE", "HANG:P2P", "MISMATCH")
PEERS = 2
"""The smallest number of peers that show the usual value."""

Row = list[tuple[tuple[str, str], str | None]]
"""The ops of a step that may return a value, in order: kind and site, and the value in words."""


def with_other_values(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. The ground of a culprit that received another value than its peers says so."""
    if not any(_open(one) for one in findings):
        return findings
    rows = [_rows(run_index, rank) for rank in range(run_index.world.size)]
    return [_with_value(one, rows) if _open(one) else one for one in findings]


def _open(finding: Finding) -> bool:
    culprit = finding.culprit
    return culprit is not None and not culprit.ranks and any(matches(finding.klass, one) for one in OF_CALLS)


def _with_value(finding: Finding, rows: list[dict[int, Row]]) -> Finding:
    culprit = finding.culprit
    if culprit is None or culprit.rank >= len(rows):
        return finding
    for site, peers in _others(culprit, rows):
        received = f"in step {culprit.step}, rank {culprit.rank} received another value at {site} than"
        line = f"{received} {ranks_text(peers)}; it may be a victim of another rank's value"
        return replace(finding, ground=(*finding.grounds, line))
    return finding


def _others(culprit: Culprit, rows: list[dict[int, Row]]) -> Iterator[tuple[str, list[int]]]:
    own = rows[culprit.rank].get(culprit.step, [])
    alike = [rank for rank in range(len(rows)) if rank != culprit.rank]
    for at, (token, value) in enumerate(own):
        there = {rank: rows[rank].get(culprit.step, []) for rank in alike}
        alike = [rank for rank, row in there.items() if at < len(row) and row[at][0] == token]
        values = {there[rank][at][1] for rank in alike}
        others = len(alike) >= PEERS and len(values) == 1 and not values & {value, None} and value is not None
        if others and all(_equal(rows[culprit.rank], rows[rank], token, culprit.step) for rank in alike):
            yield token[1], alike


def _equal(own: dict[int, Row], peer: dict[int, Row], token: tuple[str, str], step: int) -> bool:
    steps = [one for one in own if one in peer and one != step]
    both = [(_values(own[one], token), _values(peer[one], token)) for one in steps]
    known = [(mine, theirs) for mine, theirs in both if mine and theirs and None not in (*mine, *theirs)]
    return bool(known) and all(mine == theirs for mine, theirs in known)


def _values(row: Row, token: tuple[str, str]) -> list[str | None]:
    return [value for one, value in row if one == token]


def _rows(run_index: RunIndex, rank: int) -> dict[int, Row]:
    """Returns the ops of each step of a rank that may return a value."""
    journal = run_index.run.journals[rank]
    learned = {raw[ADDRESS]: repr(raw[LEARNED_OUTCOME]) for raw in journal if raw[KIND] == "learned"}
    rows: dict[int, Row] = {}
    for raw in journal:
        if raw[KIND] in RECEIVES:
            rows.setdefault(raw[STEP], []).append(((raw[KIND], raw[SITE]), learned.get(raw[ADDRESS])))
    return rows
