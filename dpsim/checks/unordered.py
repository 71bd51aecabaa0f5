"""Unordered: reports host threads that use a shared object without an order, although the program promises one.

RACE:THREADS  'order' is changed by thread worker0 and by thread worker1 (programs.py:154), and nothing orders them

A program makes this promise with `ordered_by_flags`. The simulation observes the uses while it runs (`Unordered`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.finding import Culprit, Fact, Finding, fact
from dpsim.contract.rules.unordered import SharedUse, Unordered

KLASS = "RACE:THREADS"


def of(found: Sequence[Unordered]) -> list[Finding]:
    """Returns a finding for each pair of unordered uses."""
    return [_finding(one) for one in found]


def _finding(one: Unordered) -> Finding:
    first, second = one.first, one.second
    by = second if second.changes else first
    return Finding(
        check="unordered",
        klass=KLASS,
        message=fact(
            "unordered",
            rank=one.rank,
            threads=(first.thread, second.thread),
            name=one.name,
            by=None if first.changes and second.changes else by.thread,
        ),
        culprit=Culprit(one.rank, by.step, by.site, by.where, by.thread),
        position=(by.step, 0),
        details=(_use(first), _use(second), fact("promised_by_flags"), fact("let_flag_order")),
    )


def _use(use: SharedUse) -> Fact:
    return fact("shared_use", thread=use.thread, changes=use.changes, step=use.step, where=use.where)
