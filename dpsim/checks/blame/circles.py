"""Circles: if ranks wait for each other in a cycle of different groups, the cycle replaces undecided differences.

    rank 0 waits in a, rank 1 in b, both on
    hosts, at calls of one number           ->   HANG:COLLECTIVE:ORDER_ACROSS_GROUPS, and no difference on a or b
    ranks 0, 1 wait in g2, rank 2 in g1,
    all at one site, with equal members     ->   the same, culprit rank 2
    rank 4 waits in b, and did not make the
    call on a in which ranks 2, 3 wait      ->   the same, culprit rank 4, if a comes before b elsewhere

If the ranks wait at one site (one call in the source), but in two groups with the same members, the program meant one
group. Then the culprits are the ranks in the group in which fewer ranks wait.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from dpsim.checks.blame.blocked_before import comes_before, made
from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.stuck import find_stuck
from dpsim.contract.ops import SITE, STREAM

CIRCLE = "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"


def name_the_circle(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. If ranks form a cycle of groups, the hangs of the ledger without a culprit are dropped.

    The pass also looks for ranks that call the wrong group within the cycle, and names them as the culprit.
    """
    if not any(one.klass == CIRCLE and one.culprit is None for one in findings):
        return findings
    stuck = find_stuck(run_index)
    blocked_in = [one.joined[rank] for one in stuck for rank in one.waits]
    alike = len({one.seq for one in stuck}) == 1  # as in torch's new_group: all groups are at one call
    if alike and all(entry.record.ordinal == 0 and entry.raw[STREAM] is None for entry in blocked_in):
        findings = [one for one in findings if one.culprit or one.check != "ledger" or not _hangs(one)]
    return [_with_culprit(run_index, one) if one.klass == CIRCLE and one.culprit is None else one for one in findings]


def _hangs(finding: Finding) -> bool:
    return finding.klass.startswith("HANG:COLLECTIVE")


def _with_culprit(run_index: RunIndex, finding: Finding) -> Finding:
    alike: defaultdict[tuple[tuple[int, ...], str], dict[str, list[Entry]]] = defaultdict(dict)
    for stuck in find_stuck(run_index):
        members = tuple(run_index.collectives.get(stuck.communicator, ()))
        for entry in (stuck.joined[rank] for rank in stuck.waits):
            alike[members, entry.record.site].setdefault(stuck.communicator, []).append(entry)
    for groups in alike.values():
        most, *others = sorted(groups, key=lambda one: -len(groups[one]))
        entries = [entry for other in others for entry in groups[other]]
        if entries and len(groups[most]) > len(entries):
            culprit = run_index.culprit(entries[0])
            ranks = tuple(entry.rank for entry in entries)
            apart = f"{culprit.who} is blocked on {others[0]}, the others on {most}"
            culprit = replace(culprit, ranks=ranks) if len(ranks) > 1 else culprit
            return replace(finding, culprit=culprit, ground=(*finding.ground, apart))
    return _past_a_call(run_index, finding)


def _past_a_call(run_index: RunIndex, finding: Finding) -> Finding:
    """Returns the finding. Its culprit is the one rank that is blocked behind a call that it did not make."""
    stuck = find_stuck(run_index)
    blocked_in = {rank: one.joined[rank] for one in stuck for rank in one.waits}
    past = {
        rank: call
        for one in stuck
        for call in {entry.record.site: entry for entry in one.joined.values()}.values()
        for rank in one.missing
        if rank in blocked_in and _is_past(run_index, blocked_in[rank], call)
    }
    if len(past) != 1:
        return finding
    [(rank, call)] = past.items()
    site = blocked_in[rank].raw[SITE]
    reason = f"rank {rank} is blocked in {site}, and did not make {call.raw[SITE]}, which comes before it elsewhere"
    return replace(finding, culprit=run_index.culprit(call, rank), ground=(*finding.ground, reason))


def _is_past(run_index: RunIndex, blocked: Entry, call: Entry) -> bool:
    if call.step != blocked.step or made(run_index, blocked.rank, call.step, call.raw[SITE]):
        return False
    return comes_before(run_index, blocked, call.raw[SITE]) is False
