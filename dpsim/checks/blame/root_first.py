"""Root first: runs all passes that look for the cause of a run's findings, in a fixed order.

    findings = root_first(run_index, findings)      # unsorted; `judge` sorts them by position

A pass receives the index of the run and all findings, and returns the new findings. It may change the culprit, the
position, the evidence (`ground`) and the chain of waits of a finding. By the position it sorts a consequence behind its
cause. It may also add a finding that explains others. A run without findings skips the passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dpsim.checks.blame.beside import beside
from dpsim.checks.blame.blocked_before import not_left_out
from dpsim.checks.blame.broken_off import broken_off
from dpsim.checks.blame.circles import name_the_circle
from dpsim.checks.blame.cohorts import by_cohort
from dpsim.checks.blame.extra_calls import extra_calls
from dpsim.checks.blame.lost_wakes import name_the_lost_wake
from dpsim.checks.blame.roots import roots_first
from dpsim.checks.blame.settings import with_settings
from dpsim.checks.blame.shapes import name_the_odd_call
from dpsim.checks.blame.uneven import name_the_odd_side
from dpsim.checks.blame.waiters import no_waiter, waiters_last
from dpsim.checks.blame.wrong_peer import name_the_wrong_peer
from dpsim.checks.finding import Finding
from dpsim.checks.run_index import RunIndex

Pass: TypeAlias = Callable[[RunIndex, list[Finding]], list[Finding]]

PASSES: tuple[Pass, ...] = (
    no_waiter,
    name_the_odd_side,
    not_left_out,
    by_cohort,
    name_the_circle,
    extra_calls,
    name_the_odd_call,
    name_the_wrong_peer,
    roots_first,
    waiters_last,
    broken_off,
    name_the_lost_wake,
    beside,
    with_settings,
)
"""The passes in the order in which they run."""


def root_first(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings after all passes."""
    for one in PASSES if findings else ():
        findings = one(run_index, findings)
    return findings
