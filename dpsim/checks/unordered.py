"""Unordered: reports host threads that use a shared object without an order, although the program promises one.

RACE:THREADS  'order' is changed by thread worker0 and by thread worker1 (programs.py:154), and nothing orders them

A program makes this promise with `ordered_by_flags`. The simulation observes the uses while it runs (`Unordered`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.rules.unordered import SharedUse, Unordered

KLASS = "RACE:THREADS"


def of(found: Sequence[Unordered]) -> list[Finding]:
    """Returns a finding for each pair of unordered uses."""
    return [_finding(one) for one in found]


def _finding(one: Unordered) -> Finding:
    first, second = one.first, one.second
    by = second if second.changes else first
    does = "both change it" if first.changes and second.changes else f"thread {by.thread} changes it"
    threads = f"threads {first.thread} and {second.thread} of rank {one.rank}"
    message = f"{threads} use {one.name}, {does}, and no flag orders these turns"
    cure = (
        "ordered_by_flags promises that a flag, a start, a join or a message orders them; hardware takes any order",
        "cure: let one thread set a flag after its use, and the other wait for it; or leave ordered_by_flags out",
    )
    return Finding(
        check="unordered",
        klass=KLASS,
        message=message,
        culprit=Culprit(one.rank, by.step, by.site, by.where, by.thread),
        position=(by.step, 0),
        details=(_text(first), _text(second), *cure),
    )


def _text(use: SharedUse) -> str:
    does = "changes" if use.changes else "reads"
    return f"{use.thread} {does} it in step {use.step} at {use.where}"
