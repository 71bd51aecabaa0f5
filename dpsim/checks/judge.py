"""All checks on one run; the findings in order of cause, without those that a scenario switches off.

    findings = judge(world, run)
    findings = judge(world, run, ["RACE:*"])            # does not run the check of races
    kept, off = switch_off(findings, ["HANG:*"])        # off: {"HANG:*": 2}

A scenario switches findings off by class, and this module counts them. If it switches off all classes of a check, this
module does not run the check; `not_run` names it. A check that stops at the first difference of a communicator does not
report later ones, even if the first is switched off. This module also skips checks that the `certificate` certifies, if
the other checks find nothing.

`not_claimed` names classes that need facts which a backend does not provide. If the machine took a resource away from a
run (`Run.lost`), only the acts of ranks are judged, and not what is missing. Nothing
is judged once a rank may have learned of the loss (`behind_loss`). If the bound on ops ended a run
(`Run.overdue`), this is the finding. It has no hangs, because all actors might have continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

from dpsim.checks import (
    agreement,
    deadlock,
    fault,
    floats,
    graph_lint,
    ledger,
    leftover,
    livelock,
    progress,
    race,
    stale,
)
from dpsim.checks.behind_loss import may_know
from dpsim.checks.blame.root_first import root_first
from dpsim.checks.certificate import certified
from dpsim.checks.explained_death import behind_mismatch
from dpsim.checks.finding import CLASSES, REUSE, Finding, can_match, covers, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import ALLOC_PLACE, KIND
from dpsim.contract.words import with_services
from dpsim.contract.world import Run, World


class Check(NamedTuple):
    """A check, and patterns for the classes that it finds."""

    run: Callable[[RunIndex], list[Finding]]
    finds: tuple[str, ...]

    @property
    def classes(self) -> list[str]:
        return [known for known in CLASSES if any(can_match(known, pattern) for pattern in self.finds)]


CHECKS: dict[str, Check] = {
    "ledger": Check(ledger.check, ("MISMATCH", "HANG:COLLECTIVE:MISSING_RANK", "HANG:COLLECTIVE:EXTRA_CALL")),
    "agreement": Check(agreement.check, ("DISAGREEMENT",)),
    "fault": Check(fault.check, ("CRASH", "DEATH")),
    "deadlock": Check(deadlock.check, ("HANG:COLLECTIVE:[!E]*", "HANG:[!C]*")),
    "livelock": Check(livelock.check, ("LIVELOCK",)),
    "progress": Check(progress.check, ("PROGRESS",)),
    "race": Check(race.check, ("RACE:BUFFER", "RACE:REUSED_IN_FLIGHT")),
    "stale": Check(stale.check, ("STALE",)),
    "floats": Check(floats.check, ("UNDEFINED",)),
    "graph_lint": Check(graph_lint.check, ("GRAPH",)),
    "leftover": Check(leftover.check, ("LEFTOVER",)),
}


EVERY: dict[str, Callable[[RunIndex], list[Finding]]] = {
    "fault": partial(fault.check, every=True),
    "deadlock": deadlock.every,
}
"""These leave out what another finding explains. If a scenario switches that finding off, they have to report
everything.
"""

OF_ENDS = ("HANG", "LIVELOCK", "PROGRESS", "CRASH", "DEATH", "LEFTOVER")
"""Classes of findings about the ends of ranks, or about ops that are missing."""


def judge(world: World, run: Run, off: Sequence[str] = ()) -> list[Finding]:
    """The findings in step order, then by place within the step; the first is the primary one. Empty if all holds.

    `off`: patterns that are switched off. Checks that can find only these do not run; the result has all findings of
    the others.
    """
    idle = _idle(tuple(off))
    passed = certified(world, run, idle)
    wanted = {name: check for name, check in CHECKS.items() if name not in idle}
    left = {name: check for name, check in wanted.items() if name not in passed}
    if not left:
        return []
    run_index = RunIndex.of(world, run)
    world, run = run_index.world, run_index.run
    found = {name: check.run(run_index) for name, check in left.items()}
    if passed and any(found.values()):  # a certificate holds only if the other checks find nothing
        found = {name: found[name] if name in found else check.run(run_index) for name, check in wanted.items()}
    findings = [finding for some in found.values() for finding in some]
    if off and "blocked" in run.ends and not switch_off(findings, off)[0]:
        findings = [finding for finding in findings if finding.check not in EVERY]
        findings += [finding for name, every in EVERY.items() if name not in idle for finding in every(run_index)]
    if run.lost and may_know(run):
        return []
    if run.lost:
        findings = [finding for finding in findings if not any(matches(finding.klass, one) for one in OF_ENDS)]
    if run.overdue:
        findings = [finding for finding in findings if not matches(finding.klass, "HANG")]
    elif run.endless:
        findings = [finding for finding in findings if not livelock.explains(run_index, finding)]
    findings = root_first(run_index, findings)
    if "died" in run.ends:
        findings = behind_mismatch(run_index, findings)
    findings = [_named(world, finding) for finding in findings] if world.services else findings
    return sorted(findings, key=lambda finding: (finding.check != "progress", finding.position))


def _named(world: World, finding: Finding) -> Finding:
    """Put names of services into a finding; checks use numbers."""

    def said(text: str) -> str:
        return with_services(text, world.size, world.services)

    culprit = finding.culprit
    if culprit is not None and culprit.rank >= world.size and not culprit.ranks:
        culprit = replace(culprit, service=world.actor(culprit.rank))
    details, ground, waits = (tuple(map(said, lines)) for lines in (finding.details, finding.ground, finding.waits))
    return replace(finding, message=said(finding.message), culprit=culprit, details=details, ground=ground, waits=waits)


@lru_cache(maxsize=64)
def _idle(off: tuple[str, ...]) -> tuple[str, ...]:
    """Names of checks that do not run. Cached, because thousands of runs have the same patterns."""
    return tuple(not_run(off))


def not_run(off: Sequence[str]) -> dict[str, list[str]]:
    """The checks whose classes are all switched off, and the patterns that do it.

    >>> not_run(["RACE:*", "CRASH"])
    {'race': ['RACE:*']}
    """
    return {
        name: [pattern for pattern in off if any(can_match(known, pattern) for known in check.classes)]
        for name, check in CHECKS.items()
        if all(any(covers(known, pattern) for pattern in off) for known in check.classes)
    }


def switch_off(findings: Iterable[Finding], patterns: Sequence[str]) -> tuple[list[Finding], dict[str, int]]:
    """The findings that no pattern selects, and the number that each pattern removed. If several select a finding, the
    first counts.
    """
    kept: list[Finding] = []
    counts = dict.fromkeys(patterns, 0)
    for finding in findings:
        pattern = next((pattern for pattern in patterns if matches(finding.klass, pattern)), None)
        if pattern is None:
            kept.append(finding)
        else:
            counts[pattern] += 1
    return kept, counts


def not_claimed(run: Run, pattern: str) -> str | None:
    """The reason why this run can show no finding of the pattern, or None. Its backend (gloo) does not say where memory
    lies, and the pattern selects only classes about reused memory.
    """
    needs = all(known in REUSE for known in CLASSES if can_match(known, pattern))
    if not needs or any(raw[ALLOC_PLACE] for journal in run.journals for raw in journal if raw[KIND] == "alloc"):
        return None
    return f"{pattern} is not claimed on {run.backend}, which does not tell where memory lies"


def counted(counts: dict[str, int]) -> dict[str, int]:
    """The counts, without patterns that concern only checks that did not run."""
    idle = not_run(list(counts))
    ran = [known for name, check in CHECKS.items() if name not in idle for known in check.classes]
    return {
        pattern: count for pattern, count in counts.items() if count or any(can_match(known, pattern) for known in ran)
    }


def switched_off_text(counts: dict[str, int]) -> str:
    """One line on the switched-off findings, even if there were none; empty without patterns.

    >>> switched_off_text({"MISMATCH:*": 2, "CRASH": 0})
    '2 findings switched off: 2 by MISMATCH:*, 0 by CRASH'
    >>> switched_off_text({"CRASH": 0, "RACE:*": 0, "STALE:*": 0})
    '0 findings switched off: 0 by CRASH; race, stale not run (RACE:*, STALE:*)'
    """
    parts = []
    known, idle = counted(counts), not_run(list(counts))
    if known:
        total = sum(known.values())
        each = ", ".join(f"{count} by {pattern}" for pattern, count in known.items())
        parts.append(f"{total} finding{'s' * (total != 1)} switched off: {each}")
    if idle:
        by = dict.fromkeys(pattern for patterns in idle.values() for pattern in patterns)
        parts.append(f"{', '.join(idle)} not run ({', '.join(by)})")
    return "; ".join(parts)
