"""Stale: ops that come in order but touch memory that is no longer, or not yet, what they think.

* STALE:REUSED_BLOCK: the memory of its buffer may be given to a newer one that was written before: then it reads
  another's values, or destroys them.
* STALE:UNWRITTEN: an op reads memory of its buffer that nothing wrote before; what `alloc` gives is undefined.
* STALE:VERSION: an op reads another version of a buffer than it expects (`Buffer.tagged`): the write before it left
  another tag, or none.

A write that is not ordered with the read is a race, not a stale read. An op that is *issued* after its buffer's free
never is: the contract has it raise. At most one finding for each class and site of the buffer's alloc, the earliest;
the message counts the rest, on all ranks.

    stream:   main                                             side
              free a; alloc b (same place); write b; send      receive the answer; read a      ->   STALE:REUSED_BLOCK
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.memory.cells import Access, NoTag
from dpsim.checks.memory.shadow import Memory
from dpsim.checks.race import Lives
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.ops import ORDINAL, SITE, STEP, WHERE


@dataclass
class Case:
    """One op that is stale, and how often there is one like it. `over`: what was written there before, if it was;
    `tags`: the one that was expected and the one that came, where these differ.
    """

    klass: str
    rank: int
    at: int
    buffer: int
    over: Access | None
    tags: tuple[Any, Any] = (NoTag, NoTag)
    more: int = 0


def check(run_index: RunIndex) -> list[Finding]:
    """At most one finding for each class and site of a buffer."""
    return _stale(run_index, run_index.memory) if run_index.buffers else []


def _stale(run_index: RunIndex, memory: Memory) -> list[Finding]:
    cases: dict[tuple[str, int, int, int], Case] = {}
    for rank, access, over in memory.stale:
        klass = "STALE:UNWRITTEN" if over is None else "STALE:REUSED_BLOCK"
        cases.setdefault((klass, rank, access.at, access.buffer), Case(klass, rank, access.at, access.buffer, over))
    for rank, read, write in memory.versions:
        case = Case("STALE:VERSION", rank, read.at, read.buffer, write, (read.tag, write.tag))
        cases.setdefault((case.klass, rank, read.at, read.buffer), case)
    return _findings(run_index, list(cases.values()))


def _findings(run_index: RunIndex, cases: list[Case]) -> list[Finding]:
    if not cases:
        return []
    lives = [Lives(journal) for journal in run_index.run.journals]
    first: dict[tuple[str, str], tuple[tuple[int, int], Case]] = {}
    count: dict[tuple[str, str], set[int]] = {}
    for case in cases:
        key = case.klass, lives[case.rank].site(case.buffer)
        position = run_index.position(Entry(case.rank, case.at, run_index.run.journals[case.rank][case.at]))
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
        _finding(run_index, lives[case.rank], case, position, len(count[key]))
        for key, (position, case) in first.items()
    ]


def _finding(run_index: RunIndex, lives: Lives, case: Case, position: tuple[int, int], ranks: int) -> Finding:
    entry = Entry(case.rank, case.at, run_index.run.journals[case.rank][case.at])
    record, name = entry.record, lives.name(case.buffer)
    details = []
    for what, at in (("alloc", lives.allocs.get(case.buffer)), ("free", lives.frees.get(case.buffer))):
        if at is not None:
            raw = lives.journal[at]
            details.append(f"{what} of {name} in step {raw[STEP]}" + (f" at {raw[WHERE]}" if raw[WHERE] else ""))
    text = f"reads {name}, which nothing wrote before; what alloc gives is undefined"
    if case.over is not None:
        raw = lives.journal[case.over.at]
        wrote = f"{raw[SITE]}[{raw[ORDINAL]}]"
        text = (
            f"uses {name} after its free, when its memory may have been given to {lives.name(case.over.buffer)} and "
            f"overwritten by {wrote}"
        )
        if case.klass == "STALE:VERSION":
            expected, came = case.tags
            left = "no tag" if came is NoTag else f"the tag {came!r}"
            text = f"expects the tag {expected!r} in {name}, where {wrote} left {left}"
        details.append(
            f"{'written' if case.klass == 'STALE:VERSION' else 'overwritten'} by {wrote} in step {raw[STEP]}"
            + (f" at {raw[WHERE]}" if raw[WHERE] else "")
        )
    rest = f" (and {case.more} more like it, on {ranks} rank{'s' * (ranks > 1)})" if case.more else ""
    return Finding(
        check="stale",
        klass=case.klass,
        message=f"rank {case.rank}, step {record.step}: {record.site}[{record.ordinal}] ({record.describe()}) "
        f"{text}{rest}",
        culprit=Culprit.of(case.rank, record),
        position=position,
        details=tuple(details),
    )
