"""Stale: ops that come in order but touch memory that is no longer, or not yet, what they think.

* STALE:USE_AFTER_FREE: an op was issued after its buffer's free, by the host's own order; no clocks are needed.
* STALE:REUSED_BLOCK: the same, and its memory was given to a newer buffer and written before, for sure: it reads
  another's values, or destroys them. Said instead of USE_AFTER_FREE for that op.
* STALE:UNWRITTEN: an op reads memory of its buffer that nothing wrote before; what `alloc` gives is undefined.

A write that is not ordered with the read is a race, not a stale read. At most one finding for each class and site of
the buffer's alloc, the earliest; the message counts the rest, on all ranks.

    free a; alloc b (same place); write b; read a      ->   STALE:REUSED_BLOCK
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.checks.evidence import Entry, Evidence
from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.memory import Memory
from dpsim.checks.order import REFS
from dpsim.checks.race import Lives
from dpsim.ops import RawRecord


@dataclass
class Case:
    """One op that is stale, and how often there is one like it."""

    klass: str
    rank: int
    at: int
    buffer: int
    over: int | None = None
    more: int = 0


def check(evidence: Evidence) -> list[Finding]:
    """At most one finding for each class and site of a buffer."""
    return stale(evidence, evidence.memory) if evidence.buffers else []


def stale(evidence: Evidence, memory: Memory) -> list[Finding]:
    cases: dict[tuple[int, int, int], Case] = {}
    for rank, access, over in memory.stale:
        klass = "STALE:REUSED_BLOCK" if over else "STALE:UNWRITTEN"
        case = Case(klass, rank, access.at, access.buffer, over.at if over else None)
        old = cases.setdefault((rank, access.at, access.buffer), case)
        if over and old.over is None:
            cases[rank, access.at, access.buffer] = case
    for rank, journal in enumerate(evidence.run.journals):
        for at, buffer in after_free(journal):
            case = Case("STALE:USE_AFTER_FREE", rank, at, buffer)
            if cases.setdefault((rank, at, buffer), case).klass == "STALE:UNWRITTEN":
                cases[rank, at, buffer] = case
    return _findings(evidence, list(cases.values()))


def after_free(journal: list[RawRecord]) -> list[tuple[int, int]]:
    """(index of the op, buffer) of each use of a buffer that was issued after its free."""
    freed: set[int] = set()
    found: list[tuple[int, int]] = []
    for at, raw in enumerate(journal):
        kind = raw[0]
        if kind == "free":
            freed.add(raw[6])
        elif freed and kind in REFS:
            first = REFS[kind]
            for refs in raw[first : first + 2]:
                for ref in refs:
                    if ref[0] in freed and (at, ref[0]) not in found[-2:]:
                        found.append((at, ref[0]))
    return found


def _findings(evidence: Evidence, cases: list[Case]) -> list[Finding]:
    if not cases:
        return []
    lives = [Lives(journal) for journal in evidence.run.journals]
    first: dict[tuple[str, str], tuple[tuple[int, int], Case]] = {}
    count: dict[tuple[str, str], set[int]] = {}
    for case in cases:
        key = case.klass, lives[case.rank].site(case.buffer)
        position = evidence.position(Entry(case.rank, case.at, evidence.run.journals[case.rank][case.at]))
        if key not in first:
            first[key] = position, case
            count[key] = {case.rank}
            continue
        count[key].add(case.rank)
        earlier, held = first[key]
        more = held.more + 1
        if (position, case.rank) < (earlier, held.rank):
            first[key] = position, case
        first[key][1].more = more
    return [
        _finding(evidence, lives[case.rank], case, position, len(count[key])) for key, (position, case) in first.items()
    ]


def _finding(evidence: Evidence, lives: Lives, case: Case, position: tuple[int, int], ranks: int) -> Finding:
    entry = Entry(case.rank, case.at, evidence.run.journals[case.rank][case.at])
    record, name = entry.record, lives.name(case.buffer)
    details = []
    for what, at in (("alloc", lives.allocs.get(case.buffer)), ("free", lives.frees.get(case.buffer))):
        if at is not None:
            raw = lives.journal[at]
            details.append(f"{what} of {name} in step {raw[1]}" + (f" at {raw[4]}" if raw[4] else ""))
    if case.klass == "STALE:UNWRITTEN":
        text = f"reads {name}, which nothing wrote before; what alloc gives is undefined"
    elif case.over is None:
        text = f"uses {name} after its free"
    else:
        raw = lives.journal[case.over]
        text = f"uses {name} after its memory was given away and overwritten by {raw[2]}[{raw[3]}]"
        details.append(f"overwritten by {raw[2]}[{raw[3]}] in step {raw[1]}" + (f" at {raw[4]}" if raw[4] else ""))
    rest = f" (and {case.more} more like it, on {ranks} rank{'s' * (ranks > 1)})" if case.more else ""
    return Finding(
        check="stale",
        klass=case.klass,
        message=f"rank {case.rank}, step {record.step}: {record.site}[{record.ordinal}] ({record.describe()}) "
        f"{text}{rest}",
        culprit=Culprit(case.rank, record.step, record.site, record.where),
        position=position,
        details=tuple(details),
    )
