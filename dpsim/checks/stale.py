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
from dpsim.checks.finding import Fact, Finding, fact
from dpsim.checks.memory.cells import Access, NoTag
from dpsim.checks.memory.shadow import Memory
from dpsim.checks.race import Lifetimes
from dpsim.checks.run_index import Entry, RunIndex, more_like_it
from dpsim.contract.kinds import READS, WRITES
from dpsim.contract.ops import BUFFER, KIND, ORDINAL, SITE, STEP, STREAM, WHERE, RawRecord
from dpsim.contract.rules.replay_frame import within


@dataclass
class Case:
    """A stale op. `over` is the write before it, if there is one. `tags` are the expected tag and the actual one, if
    they differ.
    """

    klass: str
    rank: int
    at: int
    buffer: int
    over: Access | None
    tags: tuple[Any, Any] = (NoTag, NoTag)


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
        earlier, held = first.setdefault(key, (position, case))
        if (position, case.rank) < (earlier, held.rank):
            first[key] = position, case
    return [
        _finding(run_index, lives[case.rank], case, position, alike[key]) for key, (position, case) in first.items()
    ]


def _finding(
    run_index: RunIndex, lives: Lifetimes, case: Case, position: tuple[int, int], alike: list[Entry]
) -> Finding:
    entry = Entry(case.rank, case.at, run_index.run.journals[case.rank][case.at])
    name = lives.name(case.buffer)
    ends = (("alloc", lives.allocs.get(case.buffer)), ("free", lives.frees.get(case.buffer)))
    details = [_life(lives, what, at, name) for what, at in ends if at is not None]
    if case.over is not None:
        raw, left = lives.journal[case.over.at], case.klass == "STALE:VERSION"
        write = {"op": _op(raw), "step": raw[STEP], "where": raw[WHERE]}
        details.append(fact("written_by", **write) if left else fact("overwritten_by", **write))
    return Finding(
        check="stale",
        klass=case.klass,
        message=fact("stale", rank=case.rank, call=entry.record, use=_use(lives, case, name), more=more_like_it(alike)),
        culprit=run_index.of_all(entry, alike),
        position=position,
        details=tuple(details),
    )


def _use(lives: Lifetimes, case: Case, name: str) -> Fact:
    if case.over is not None:
        by = _op(lives.journal[case.over.at])
        if case.klass == "STALE:VERSION":
            expected, got = (None if tag is NoTag else repr(tag) for tag in case.tags)
            return fact("expects_tag", buffer=name, expected=expected, by=by, got=got)
        return fact("uses_reused", buffer=name, new=lives.name(case.over.buffer), by=by)
    at = lives.allocs.get(case.buffer)
    pool = "" if at is None or "@" not in lives.journal[at][STREAM] else lives.journal[at][STREAM]
    if case.klass == "STALE:FREED":
        return fact("uses_left", buffer=name, pool=pool) if pool else fact("uses_freed", buffer=name)
    lost = _lost(lives, at) if at is not None and pool else ""
    return fact("reads_lost", buffer=name, replay=lost) if lost else fact("reads_unwritten", buffer=name)


def _op(raw: RawRecord) -> str:
    return f"{raw[SITE]}[{raw[ORDINAL]}]"


def _life(lives: Lifetimes, what: str, at: int, name: str) -> Fact:
    """Returns when the program allocated or freed a buffer.

    A buffer of a graph's pool ends when the pool gives its memory to a later capture or replay.
    """
    raw = lives.journal[at]
    given = what == "free" and "@" in raw[STREAM]
    place = {"buffer": name, "step": raw[STEP], "where": raw[WHERE], "within": within(lives.journal, at)}
    return fact("given_again", **place) if given else fact("life", what=what, **place)


def _lost(lives: Lifetimes, at: int) -> str:
    """Returns the replay that may have overwritten memory of a graph's pool, allocated at `at`; empty if none has.

    The memory's earlier buffer ended in that replay.
    """
    same = _origin(lives.journal[at])
    ends = [lives.frees.get(older, at) for older, of in lives.allocs.items() if _origin(lives.journal[of]) == same]
    return next(filter(None, (within(lives.journal, end) for end in sorted(ends, reverse=True) if end < at)), "")


def _origin(alloc: RawRecord) -> tuple[str, str, str]:
    """Returns a key that is equal for all buffers which have one memory range of a graph's pool in turn."""
    return alloc[STREAM], alloc[SITE], alloc[WHERE]


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
