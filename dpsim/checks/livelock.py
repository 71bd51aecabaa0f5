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

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import NO_ACTS, POLLS
from dpsim.contract.ops import KIND, SITE, WHERE, as_record
from dpsim.contract.words import ranks_text

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

WAITS = "no other event can answer these calls"
GOES_ON = "none of these calls can end the loop"
SAME = "all programs and mailboxes are in the same state again"
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
    same: dict[str, list[int]] = {}
    for rank, cycle in cycles.items():
        same.setdefault(", ".join(dict.fromkeys(map(text, cycle))), []).append(rank)
    repeating = [f"{ranks_text(ranks)} repeat{'s' * (len(ranks) == 1)} {what}" for what, ranks in same.items()]
    return [
        Finding(
            check="livelock",
            klass=KINDS[kind],
            message=f"{repeating[0]}, without end: {_why(kind)}; end the loop after a number of rounds",
            culprit=Culprit.of(first.rank, first.record) if len(endless) == 1 else None,
            position=(first.step, first.at),
            details=(*repeating, *_others(run_index)),
        )
    ]


def _why(kind: str) -> str:
    return SAME if kind == "post" else WAITS if kind in POLLS else GOES_ON


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


def text(entry: Entry) -> str:
    record = entry.record
    return f"{record.describe()} ({record.site}, {record.where}, step {record.step})"


def _others(run_index: RunIndex) -> list[str]:
    """Returns a line for each rank that is blocked and does not loop."""
    run, lines = run_index.run, []
    for rank, journal in enumerate(run.journals):
        if run.ends[rank] == "blocked" and rank not in run.endless:
            last = next((raw for raw in reversed(journal) if raw[KIND] not in NO_ACTS), None)
            where = "has not begun"
            if last is not None:
                record = as_record(last)
                where = f"is blocked in {record.describe()} ({record.site}, {record.where}, step {record.step})"
            lines.append(f"rank {rank} {where}")
    return lines
