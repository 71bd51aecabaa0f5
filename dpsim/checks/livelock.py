"""Livelock: finds ranks that loop without end and make no progress.

The backend notices that a run can only repeat itself, and stops it (`Run.endless`). The check reads what a rank repeats
from the end of its journal:

    rank 0 polls inbox without end, in vain         ->   LIVELOCK:POLL, culprit rank 0
    ranks 0, 1 sleep without end                    ->   LIVELOCK:SLEEP, no culprit
    ranks 0, 1 answer each other without end        ->   LIVELOCK:MESSAGES, no culprit

If several ranks loop, the journals do not show which of them should have acted, so the finding names no culprit. Runs
in which every rank is blocked are deadlocks (`dpsim.checks.deadlock`).
"""

from __future__ import annotations

from dpsim.checks.alike_hangs import shown
from dpsim.checks.finding import Culprit, Fact, Finding, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import NO_ACTS, POLLS
from dpsim.contract.ops import KIND, SITE, WHERE

KINDS = {
    "post": "LIVELOCK:MESSAGES",
    "take": "LIVELOCK:POLL",
    "ask": "LIVELOCK:QUERY",
    "look": "LIVELOCK:QUERY",
    "flag": "LIVELOCK:FLAG",
    "store": "LIVELOCK:POLL",
    "sleep": "LIVELOCK:SLEEP",
    "decision": "LIVELOCK:DECISION",
}
"""The class of the finding by the op that a rank repeats. If it repeats several, the first in this table decides."""

TAIL = 64


def check(run_index: RunIndex) -> list[Finding]:
    """Returns one finding for all ranks that loop, or none if the run ended by itself."""
    endless = run_index.run.endless
    if not endless or run_index.run.overdue:
        return []
    cycles = {rank: repeated(run_index, rank) for rank in endless}
    kinds = {entry.raw[KIND] for cycle in cycles.values() for entry in cycle}
    kind = next((kind for kind in KINDS if kind in kinds), "decision")
    cycles = {rank: _from(kind, cycle) for rank, cycle in cycles.items()}
    telling = [cycle[0] for cycle in cycles.values()]
    first = min(telling, key=lambda entry: (entry.raw[KIND] != kind, entry.step, entry.rank))
    same: dict[object, list[int]] = {}
    for rank, cycle in cycles.items():
        same.setdefault(tuple(shown(entry.record) for entry in cycle), []).append(rank)
    repeating = [fact("repeats", ranks=(*ranks,), ops=tuple(map(op_fact, cycles[ranks[0]]))) for ranks in same.values()]
    return [
        Finding(
            check="livelock",
            klass=KINDS[kind],
            message=fact("without_end", repeats=repeating[0], why=_why(kind)),
            culprit=Culprit.of(first.rank, first.record) if len(endless) == 1 else None,
            position=(first.step, first.at),
            details=(*repeating, *_others(run_index)),
        )
    ]


def _why(kind: str) -> Fact:
    return fact("same_state") if kind == "post" else fact("no_answer") if kind in POLLS else fact("no_way_out")


def explains(run_index: RunIndex, finding: Finding) -> bool:
    """Returns whether a finding is about a collective that a rank repeats in its loop.

    The backend stopped the run before the rank reached the collective again, so the peers that wait there are no
    violation.
    """
    culprit = finding.culprit
    if finding.check != "ledger" or not finding.klass.startswith("HANG") or culprit is None:
        return False
    repeats = culprit.rank in run_index.run.endless and repeated(run_index, culprit.rank)
    return any(entry.raw[KIND] == "collective" and entry.raw[SITE] == culprit.site for entry in repeats or ())


def _from(kind: str, cycle: list[Entry]) -> list[Entry]:
    """Returns the repeated ops, rotated to begin with an op of this kind if there is one."""
    start = next((at for at, entry in enumerate(cycle) if entry.raw[KIND] == kind), 0)
    return cycle[start:] + cycle[:start]


def repeated(run_index: RunIndex, rank: int) -> list[Entry]:
    """Returns the ops at the end of a journal in order, each place in the source once."""
    journal = run_index.run.journals[rank]
    start = max(0, len(journal) - TAIL)
    places: dict[tuple[str, str, str], Entry] = {}
    for at in range(start, len(journal)):
        raw = journal[at]
        if raw[KIND] not in NO_ACTS:
            places[raw[KIND], raw[SITE], raw[WHERE]] = Entry(rank, at, raw)
    return sorted(places.values(), key=lambda entry: entry.at)


def op_fact(entry: Entry) -> Fact:
    return fact("op", op=entry.record)


def _others(run_index: RunIndex) -> list[Fact]:
    run, lines = run_index.run, []
    for rank, journal in enumerate(run.journals):
        if run.ends[rank] == "blocked" and rank not in run.endless:
            last = next((at for at in reversed(range(len(journal))) if journal[at][KIND] not in NO_ACTS), None)
            op = None if last is None else op_fact(Entry(rank, last, journal[last]))
            lines.append(fact("is_blocked", rank=rank, op=op))
    return lines
