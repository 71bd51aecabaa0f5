"""All checks on one run; the findings in order of cause."""

from __future__ import annotations

from collections.abc import Callable

from dpsim.checks import agreement, deadlock, fault, ledger
from dpsim.checks.evidence import Evidence
from dpsim.checks.finding import Finding
from dpsim.world import Run, World

CHECKS: dict[str, Callable[[Evidence], list[Finding]]] = {
    "ledger": ledger.check,
    "agreement": agreement.check,
    "fault": fault.check,
    "deadlock": deadlock.check,
}


def judge(world: World, run: Run) -> list[Finding]:
    """What does not hold, the primary finding first: the one that lies earliest in its step, in step order. Empty
    if all holds.
    """
    evidence = Evidence.of(world, run)
    findings = [finding for check in CHECKS.values() for finding in check(evidence)]
    return sorted(findings, key=lambda finding: finding.position)
