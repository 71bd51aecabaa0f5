"""All checks on one run; the findings in order of cause, and which of them nobody wants to hear of.

    findings = judge(world, run)
    kept, off = switch_off(findings, ["RACE:*"])        # off: {"RACE:*": 2}

A finding is switched off by its class, after all checks have run, and is counted. A check that stops at the first
difference of a communicator says nothing of later ones, even where the first is switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dpsim.checks import agreement, deadlock, fault, ledger, race, stale
from dpsim.checks.evidence import Evidence
from dpsim.checks.finding import Finding, matches
from dpsim.world import Run, World

CHECKS: dict[str, Callable[[Evidence], list[Finding]]] = {
    "ledger": ledger.check,
    "agreement": agreement.check,
    "fault": fault.check,
    "deadlock": deadlock.check,
    "race": race.check,
    "stale": stale.check,
}


def judge(world: World, run: Run) -> list[Finding]:
    """What does not hold, the primary finding first: the one that lies earliest in its step, in step order. Empty
    if all holds.
    """
    evidence = Evidence.of(world, run)
    findings = [finding for check in CHECKS.values() for finding in check(evidence)]
    return sorted(findings, key=lambda finding: finding.position)


def switch_off(findings: Iterable[Finding], patterns: Sequence[str]) -> tuple[list[Finding], dict[str, int]]:
    """The findings that no pattern selects, and how many each pattern took away: the first that selects one counts."""
    kept: list[Finding] = []
    counts = dict.fromkeys(patterns, 0)
    for finding in findings:
        pattern = next((pattern for pattern in patterns if matches(finding.klass, pattern)), None)
        if pattern is None:
            kept.append(finding)
        else:
            counts[pattern] += 1
    return kept, counts


def switched_off_text(counts: dict[str, int]) -> str:
    """One line on what was switched off, also if it was nothing; empty without patterns.

    >>> switched_off_text({"RACE:*": 2, "HANG": 0})
    '2 findings switched off: 2 by RACE:*, 0 by HANG'
    """
    if not counts:
        return ""
    total = sum(counts.values())
    each = ", ".join(f"{count} by {pattern}" for pattern, count in counts.items())
    return f"{total} finding{'s' * (total != 1)} switched off: {each}"
