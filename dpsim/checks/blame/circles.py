"""Ranks that wait for each other in different groups: the cycle is a better finding than an undecided difference.

    rank 0 waits in a, rank 1 in b, both on
    hosts, at calls of one number           ->   HANG:COLLECTIVE:ORDER_ACROSS_GROUPS, and no difference on a or b
    ranks 0, 1 wait in g2, rank 2 in g1,
    all at one site, with equal members     ->   the same, culprit rank 2

If ranks stand at one site in two groups of the same members, the program meant one group. Then the culprits are the
ranks in the group with fewer waiting ranks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from dpsim.checks.finding import Finding
from dpsim.checks.run_index import RunIndex
from dpsim.checks.stuck import Stuck, find_stuck
from dpsim.contract.ops import STREAM

CIRCLE = "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"


def name_the_circle(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Leave out differences without a culprit if there is a cycle of groups, and look for a rank that stands apart in
    the cycle.
    """
    if not any(one.klass == CIRCLE and one.culprit is None for one in findings):
        return findings
    stuck = find_stuck(run_index)
    standing = [one.joined[rank] for one in stuck for rank in one.waits]
    alike = len({one.seq for one in stuck}) == 1  # no group is ahead: torch's new_group meets on each
    if alike and all(entry.record.ordinal == 0 and entry.raw[STREAM] is None for entry in standing):
        findings = [one for one in findings if one.culprit or one.check != "ledger" or not _hangs(one)]
    return [_with_culprit(run_index, one) if one.klass == CIRCLE and one.culprit is None else one for one in findings]


def _hangs(finding: Finding) -> bool:
    return finding.klass.startswith("HANG:COLLECTIVE")


def _with_culprit(run_index: RunIndex, finding: Finding) -> Finding:
    alike: defaultdict[tuple[tuple[int, ...], str], list[Stuck]] = defaultdict(list)
    for stuck in find_stuck(run_index):
        members = tuple(run_index.collectives.get(stuck.communicator, ()))
        for site in dict.fromkeys(stuck.joined[rank].record.site for rank in stuck.waits):
            alike[members, site].append(stuck)
    for groups in alike.values():
        most, *others = sorted(groups, key=lambda one: -len(one.waits))
        if others and len(most.waits) > sum(len(one.waits) for one in others):
            entries = [one.joined[rank] for one in others for rank in one.waits]
            culprit = run_index.culprit(entries[0])
            ranks = tuple(entry.rank for entry in entries)
            apart = f"{culprit.who} stands in {others[0].communicator}, where the others stand in {most.communicator}"
            culprit = replace(culprit, ranks=ranks) if len(ranks) > 1 else culprit
            return replace(finding, culprit=culprit, ground=(*finding.ground, apart))
    return finding
