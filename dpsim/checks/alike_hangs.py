"""Alike hangs: if host threads of several ranks hang in the same way, merges their findings into one.

rank 0   thread u1 waits for flag ready         thread u1 of ranks 0, 1 waits for flag ready
rank 1   thread u1 waits for flag ready         culprit every rank, if there is no other one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsim.checks.finding import Fact, Finding
from dpsim.contract.ops import Record


def shown(record: Record) -> tuple[object, ...]:
    """Returns what a sentence shows of an op. It is equal for ranks that did the same; their records may differ."""
    return record.describe(), record.site, record.where, record.step


def folded(findings: Sequence[Finding], size: int) -> list[Finding]:
    """Returns the findings, with one for all ranks that hang in the same way. `size` counts ranks and services."""
    alike: dict[object, list[Finding]] = {}
    for finding in findings:
        if finding.culprit is not None:
            alike.setdefault((replace(finding.culprit, rank=-1), finding.klass), []).append(finding)
    return [_folded(row, size) for row in alike.values()]


def _folded(findings: list[Finding], size: int) -> Finding:
    """Returns one finding for ranks that hang in the same way.

    If all ranks and services do, the culprit is that line on every rank. Otherwise the finding has no culprit.
    """
    first = findings[0]
    if len(findings) == 1 or first.culprit is None:
        return first
    ranks = [finding.culprit.rank for finding in findings if finding.culprit is not None]
    return replace(
        first,
        message=first.message.having(ranks=tuple(ranks)) if isinstance(first.message, Fact) else first.message,
        culprit=replace(first.culprit, ranks=tuple(ranks), every=True) if len(ranks) == size else None,
        position=min(finding.position for finding in findings),
    )
