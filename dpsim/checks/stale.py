"""Stale: ops that come in order but touch memory that is no longer, or not yet, what they think.

* STALE:REUSED_BLOCK: the memory of its buffer may be given to a newer one that was written before: then it reads
  another's values, or destroys them.
* STALE:FREED: its buffer was freed before the op was issued. A replay uses the memory of its capture, whatever became
  of it; and what a graph left can be used until its pool gives the memory out again.
* STALE:UNWRITTEN: an op reads memory of its buffer that nothing wrote before; what `alloc` gives is undefined.
* STALE:VERSION: an op reads another version of a buffer than it expects (`Buffer.tagged`): the write before it left
  another tag, or none.
* STALE:NOT_WRITTEN_FOR_REPLAY: see `dpsim.checks.stale_replay`.

A write that is not ordered with the read is a race, not a stale read. Other ops that are *issued* after their buffer's
free there are none: the contract has them raise. At most one finding for each class and site of the buffer's alloc, the
earliest; the message counts the rest, on all ranks.

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
from dpsim.checks.stale_replay import PLACES
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
            expected, came = case.tags
            left = "no tag" if came is NoTag else f"the tag {came!r}"
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
    """Where a life of memory began or ended. That of a graph's memory ends when its pool gives it out again."""
    raw = lives.journal[at]
    where, of = f" at {raw[WHERE]}" if raw[WHERE] else "", within(lives.journal, at)
    if what == "free" and "@" in raw[STREAM]:
        by = f", in {of}" if of else ""
        return f"its pool gave the memory of {name} out again in step {raw[STEP]}{by}; freed{where}"
    return f"{what} of {name} in step {raw[STEP]}{where}" + (f", in {of}" if of else "")


def _lost(lives: Lifetimes, buffer: int) -> str:
    """Which replay may have overwritten memory of a graph's pool, so that it began another life; empty if none has:
    in that replay an earlier life of it ended.
    """
    at = lives.allocs.get(buffer)
    if at is None or "@" not in lives.journal[at][STREAM]:
        return ""
    same = _origin(lives.journal[at])
    ends = [lives.frees.get(older, at) for older, of in lives.allocs.items() if _origin(lives.journal[of]) == same]
    by = next(filter(None, (within(lives.journal, end) for end in sorted(ends, reverse=True) if end < at)), "")
    return by and f"{by}, which may have overwritten it: that graph's calls take memory of the pool"


def _origin(alloc: RawRecord) -> tuple[str, str, str]:
    """What the lives of one memory of a pool have in common."""
    return alloc[STREAM], alloc[SITE], alloc[WHERE]


def _kept(lives: Lifetimes, buffer: int) -> str:
    """What should not have happened to memory that is used after its free."""
    at = lives.allocs.get(buffer)
    if at is not None and "@" in lives.journal[at][STREAM]:
        return f"what a graph left holds until its pool ({lives.journal[at][STREAM]}) gives the memory out again"
    return "memory that a graph was captured with has to live as long as the graph is replayed"


def used_after_free(journal: list[RawRecord]) -> list[tuple[int, int]]:
    """(index in the journal, buffer) of each use of memory that was freed before the op was issued, in order.

    The contract refuses such a use, but for two: a replay of a graph uses the memory of its capture, whatever became of
    it; and a weak reference to a graph's output is no use once the graph's pool has given the memory out again.
    Journals tell both by themselves, in the order of issue.

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
        elif freed and kind in PLACES:
            gone = {ref[0] for place in PLACES[kind] for ref in raw[place] if ref[0] in freed}
            found += [(at, buffer) for buffer in sorted(gone)]
    return found
