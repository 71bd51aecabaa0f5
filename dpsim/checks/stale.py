"""Stale: finds ops that access memory which no longer has, or does not have yet, the expected contents.

* STALE:REUSED_BLOCK: the allocator may have given the memory of the op's buffer to a newer buffer, which a kernel has
  written. Then the op reads the newer values, or overwrites them.
* STALE:FREED: the program freed the buffer before it issued the op. Only graphs make this possible. A replay uses the
  memory of its capture even after a free, and a program may hold a weak reference to a graph's output.
* STALE:UNWRITTEN: an op reads a buffer before any write. The contents of a new buffer are undefined.
* STALE:VERSION: an op expects that the last write left a certain tag (`Buffer.tagged`), and it left another one or
  none.
* STALE:NOT_WRITTEN_FOR_REPLAY: see `dpsim.checks.stale_replay`.

In all of these, happens-before orders the accesses. If a write is unordered with the read, it is a race instead. The
check reports at most one finding for each class and allocation site. The finding shows the earliest op, and its message
counts the others on all ranks.

    stream:   main                                             side
              free a; alloc b (same place); write b; send      receive the answer; read a      ->   STALE:REUSED_BLOCK
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpsim.checks import stale_replay
from dpsim.checks.finding import Finding
from dpsim.checks.memory.cells import Access, NoTag
from dpsim.checks.memory.shadow import Memory
from dpsim.checks.race import Lifetimes
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import READS, WRITES
from dpsim.contract.ops import (
    BUFFER,
    KIND,
    ORDINAL,
    SITE,
    STEP,
    STREAM,
    WHERE,
    RawRecord,
)
from dpsim.contract.rules.replay_frame import within


@dataclass
class Case:
    """A stale op. `over` is the write before it, if there is one. `tags` are the expected tag and the actual one, if
    they differ. `more` counts similar ops.
    """

    klass: str
    rank: int
    at: int
    buffer: int
    over: Access | None
    tags: tuple[Any, Any] = (NoTag, NoTag)
    more: int = 0


def check(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for each class and allocation site."""
    return [*_stale(run_index, run_index.memory), *stale_replay.found(run_index)] if run_index.buffers else []


def _stale(run_index: RunIndex, memory: Memory) -> list[Finding]:
    cases: dict[tuple[str, int, int, int], Case] = {}
    freed: set[tuple[int, int, int]] = set()
    for rank, journal in enumerate(run_index.run.journals):
        for at, buffer in used_after_free(journal):
            freed.add((rank, at, buffer))
            cases["STALE:FREED", rank, at, buffer] = Case("STALE:FREED", rank, at, buffer, None)
    for rank, access, over in memory.stale:
        if (rank, access.at, access.buffer) in freed:
            continue
        klass = "STALE:UNWRITTEN" if over is None else "STALE:REUSED_BLOCK"
        cases.setdefault((klass, rank, access.at, access.buffer), Case(klass, rank, access.at, access.buffer, over))
    for rank, read, write in memory.versions:
        case = Case("STALE:VERSION", rank, read.at, read.buffer, write, (read.tag, write.tag))
        cases.setdefault((case.klass, rank, read.at, read.buffer), case)
    return _findings(run_index, list(cases.values()))


def _findings(run_index: RunIndex, cases: list[Case]) -> list[Finding]:
    if not cases:
        return []
    lives = [Lifetimes(journal) for journal in run_index.run.journals]
    first: dict[tuple[str, str], tuple[tuple[int, int], Case]] = {}
    alike: dict[tuple[str, str], list[Entry]] = {}
    for case in cases:
        key = case.klass, lives[case.rank].site(case.buffer)
        entry = Entry(case.rank, case.at, run_index.run.journals[case.rank][case.at])
        position = run_index.position(entry)
        alike.setdefault(key, []).append(entry)
        if key not in first:
            first[key] = position, case
            continue
        earlier, held = first[key]
        more = held.more + 1
        if (position, case.rank) < (earlier, held.rank):
            first[key] = position, case
        first[key][1].more = more
    return [
        _finding(run_index, lives[case.rank], case, position, alike[key]) for key, (position, case) in first.items()
    ]


def _finding(
    run_index: RunIndex, lives: Lifetimes, case: Case, position: tuple[int, int], alike: list[Entry]
) -> Finding:
    entry = Entry(case.rank, case.at, run_index.run.journals[case.rank][case.at])
    record, name = entry.record, lives.name(case.buffer)
    details = []
    for what, at in (("alloc", lives.allocs.get(case.buffer)), ("free", lives.frees.get(case.buffer))):
        if at is not None:
            details.append(_life(lives, what, at, name))
    text = f"reads {name}, which nothing wrote before; what alloc gives is undefined"
    lost = _lost(lives, case.buffer)
    if case.over is None and lost:
        text = f"reads {name}, which nothing wrote since {lost}"
    if case.klass == "STALE:FREED":
        text = f"uses {name} after its free; {_kept(lives, case.buffer)}"
    if case.over is not None:
        raw = lives.journal[case.over.at]
        wrote = f"{raw[SITE]}[{raw[ORDINAL]}]"
        text = (
            f"uses {name} after its free, when its memory may have been given to {lives.name(case.over.buffer)} and "
            f"overwritten by {wrote}"
        )
        if case.klass == "STALE:VERSION":
            expected, got = case.tags
            left = "no tag" if got is NoTag else f"the tag {got!r}"
            text = f"expects the tag {expected!r} in {name}, where {wrote} left {left}"
        details.append(
            f"{'written' if case.klass == 'STALE:VERSION' else 'overwritten'} by {wrote} in step {raw[STEP]}"
            + (f" at {raw[WHERE]}" if raw[WHERE] else "")
        )
    ranks = len({one.rank for one in alike})
    rest = f" (and {case.more} more like it, on {ranks} rank{'s' * (ranks > 1)})" if case.more else ""
    return Finding(
        check="stale",
        klass=case.klass,
        message=f"rank {case.rank}, step {record.step}: {record.site}[{record.ordinal}] ({record.describe()}) "
        f"{text}{rest}",
        culprit=run_index.of_all(entry, alike),
        position=position,
        details=tuple(details),
    )


def _life(lives: Lifetimes, what: str, at: int, name: str) -> str:
    """Returns when the program allocated or freed a buffer, in words.

    A buffer of a graph's pool ends when the pool gives its memory to a later capture or replay.
    """
    raw = lives.journal[at]
    where, of = f" at {raw[WHERE]}" if raw[WHERE] else "", within(lives.journal, at)
    if what == "free" and "@" in raw[STREAM]:
        by = f", in {of}" if of else ""
        return f"its pool gave the memory of {name} out again in step {raw[STEP]}{by}; freed{where}"
    return f"{what} of {name} in step {raw[STEP]}{where}" + (f", in {of}" if of else "")


def _lost(lives: Lifetimes, buffer: int) -> str:
    """Returns the replay that may have overwritten memory of a graph's pool, in words; empty if none has.

    The memory's earlier buffer ended in that replay.
    """
    at = lives.allocs.get(buffer)
    if at is None or "@" not in lives.journal[at][STREAM]:
        return ""
    same = _origin(lives.journal[at])
    ends = [lives.frees.get(older, at) for older, of in lives.allocs.items() if _origin(lives.journal[of]) == same]
    by = next(filter(None, (within(lives.journal, end) for end in sorted(ends, reverse=True) if end < at)), "")
    return by and f"{by}, which may have overwritten it: that graph's calls take memory of the pool"


def _origin(alloc: RawRecord) -> tuple[str, str, str]:
    """Returns a key that is equal for all buffers which have one memory range of a graph's pool in turn."""
    return alloc[STREAM], alloc[SITE], alloc[WHERE]


def _kept(lives: Lifetimes, buffer: int) -> str:
    """Returns the rule that a use of memory after its free breaks, in words."""
    at = lives.allocs.get(buffer)
    if at is not None and "@" in lives.journal[at][STREAM]:
        return f"what a graph left holds until its pool ({lives.journal[at][STREAM]}) gives the memory out again"
    return "memory that a graph was captured with has to live as long as the graph is replayed"


def used_after_free(journal: list[RawRecord]) -> list[tuple[int, int]]:
    """Returns (index in the journal, buffer) of each use of memory that was freed before the op was issued, in order.

    A backend refuses such a use, with two exceptions. A replay uses the memory of its capture, whether it is freed or
    not. A weak reference to a graph's output becomes invalid once the graph's pool gives the memory away.

        free x;  replay g: launch k reads x     ->  (at of k, x)
    """
    if not any(raw[KIND] == "capture" for raw in journal):
        return []
    freed: set[int] = set()
    found: list[tuple[int, int]] = []
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "free":
            freed.add(raw[BUFFER])
        elif freed and kind in READS:
            freed_refs = {ref[0] for at_of in (READS, WRITES) if kind in at_of for ref in raw[at_of[kind]]} & freed
            found += [(at, buffer) for buffer in sorted(freed_refs)]
    return found
