"""Judge: runs all checks on a run, and returns the findings in order of cause.

    findings = judge(world, run)
    findings = judge(world, run, ["RACE:*"])            # does not run the check of races
    kept, off = switch_off(findings, ["HANG:*"])        # off: {"HANG:*": 2}

A scenario may switch classes of findings off. `switch_off` removes them and counts them for the report. If a scenario
switches off all classes of a check, the judge does not run this check, and `not_run` names it. A check may stop at the
first difference of a communicator. It then reports no later difference, even if the first one is switched off.

The judge also skips each check that the `certificate` proves to pass. If another check finds something, the proof is no
longer valid, and the judge runs all checks.

Three kinds of run are special:

* The machine took a process away (`Run.lost`): only what ranks did is judged, and missing ops are not. If a rank may
  have noticed the loss, nothing is judged (`behind_loss`).
* A run exceeded its bound on ops (`Run.overdue`): this is a finding. Hangs are not reported, because actors could have
  continued.
* The backend does not record addresses of memory: `not_claimed` names the classes that need them.
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
from dpsim.checks.behind_loss import may_depend_on_loss
from dpsim.checks.blame.root_first import root_first
from dpsim.checks.certificate import certified
from dpsim.checks.classes import CLASSES
from dpsim.checks.explained_death import behind_mismatch
from dpsim.checks.finding import Finding, can_match, covers, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import ALLOC_PLACE, KIND
from dpsim.contract.world import Run, World


class Check(NamedTuple):
    """A check function, and patterns for the classes that it finds."""

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
"""Variants of checks that report everything, even what another finding explains.

The judge uses them if the user switched off the findings that would explain the others.
"""

OF_ENDS = ("HANG", "LIVELOCK", "PROGRESS", "CRASH", "DEATH", "LEFTOVER")
"""Classes of findings about how ranks end, or about missing ops."""


def judge(world: World, run: Run, off: Sequence[str] = ()) -> list[Finding]:
    """Returns the findings, sorted by step and then by position within the step. The first one is the primary finding.

    Empty if the run passes. `off` contains patterns of classes that are switched off. A check that can find only these
    does not run, but the result still contains all findings of the other checks.
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
    if run.lost and may_depend_on_loss(run):
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
    findings = [_named(world, finding) for finding in findings]
    return sorted(findings, key=lambda finding: (finding.check != "progress", finding.position))


def _named(world: World, finding: Finding) -> Finding:
    culprit = finding.culprit
    if culprit is None or culprit.rank < world.size or culprit.ranks:
        return finding
    return replace(finding, culprit=replace(culprit, service=world.actor(culprit.rank)))


@lru_cache(maxsize=64)
def _idle(off: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the checks that do not run. Cached, because thousands of runs have the same patterns."""
    return tuple(not_run(off))


def not_run(off: Sequence[str]) -> dict[str, list[str]]:
    """Returns the checks whose classes are all switched off, each with the patterns that do so.

    >>> not_run(["RACE:*", "CRASH"])
    {'race': ['RACE:*']}
    """
    return {
        name: [pattern for pattern in off if any(can_match(known, pattern) for known in check.classes)]
        for name, check in CHECKS.items()
        if all(any(covers(known, pattern) for pattern in off) for known in check.classes)
    }


def switch_off(findings: Iterable[Finding], patterns: Sequence[str]) -> tuple[list[Finding], dict[str, int]]:
    """Returns the findings that no pattern selects, and how many findings each pattern removed.

    If several patterns select a finding, the first one counts.
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
    """Returns the reason why this run can show no finding of the pattern, or None.

    The reason is that the pattern selects only classes about reused memory, and the backend (gloo) records no
    addresses.
    """
    needs = all(one.needs_place for known, one in CLASSES.items() if can_match(known, pattern))
    if not needs or any(raw[ALLOC_PLACE] for journal in run.journals for raw in journal if raw[KIND] == "alloc"):
        return None
    return f"{pattern} is not claimed on {run.backend}, which does not tell where memory lies"


def counted(counts: dict[str, int]) -> dict[str, int]:
    """Returns the counts without patterns that concern only checks that did not run."""
    idle = not_run(list(counts))
    ran = [known for name, check in CHECKS.items() if name not in idle for known in check.classes]
    return {
        pattern: count for pattern, count in counts.items() if count or any(can_match(known, pattern) for known in ran)
    }


def switched_off_text(counts: dict[str, int]) -> str:
    """Returns one line about the switched-off findings, even if their number is 0. Empty without patterns.

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
