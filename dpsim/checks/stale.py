"""Stale: ordered ops that touch memory which no longer has, or does not yet have, the expected contents.

* STALE:REUSED_BLOCK: the memory of the op's buffer may belong to a newer buffer that was written before. Then the op
  reads values of the newer buffer, or destroys them.
* STALE:FREED: the program freed the buffer before it issued the op. A replay uses the memory of its capture, whether it
  is freed or not. A program may use the output of a graph until its pool gives the memory away.
* STALE:UNWRITTEN: an op reads memory of its buffer before any write; the contents of a new buffer are undefined.
* STALE:VERSION: an op reads another version of a buffer than it expects (`Buffer.tagged`): the write before it left
  another tag, or none.
* STALE:NOT_WRITTEN_FOR_REPLAY: see `dpsim.checks.stale_replay`.

A write without an order with the read is a race, not a stale read. A program cannot *issue* other ops after the free of
their buffer, because the contract refuses them. There is at most one finding for each class and site of the buffer's
alloc. It shows the earliest op, and the message counts the rest, on all ranks.

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
    """A stale op, and the number of similar ones. `over`: the earlier write there, if there is one. `tags`: the
    expected tag and the actual one, if they differ.
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
    """The beginning or end of a life of memory. The life of a graph's memory ends when its pool gives it away."""
    raw = lives.journal[at]
    where, of = f" at {raw[WHERE]}" if raw[WHERE] else "", within(lives.journal, at)
    if what == "free" and "@" in raw[STREAM]:
        by = f", in {of}" if of else ""
        return f"its pool gave the memory of {name} out again in step {raw[STEP]}{by}; freed{where}"
    return f"{what} of {name} in step {raw[STEP]}{where}" + (f", in {of}" if of else "")


def _lost(lives: Lifetimes, buffer: int) -> str:
    """The replay that may have overwritten memory of a graph's pool, so that the memory began another life; empty if
    none has. An earlier life of the memory ended in that replay.
    """
    at = lives.allocs.get(buffer)
    if at is None or "@" not in lives.journal[at][STREAM]:
        return ""
    same = _origin(lives.journal[at])
    ends = [lives.frees.get(older, at) for older, of in lives.allocs.items() if _origin(lives.journal[of]) == same]
    by = next(filter(None, (within(lives.journal, end) for end in sorted(ends, reverse=True) if end < at)), "")
    return by and f"{by}, which may have overwritten it: that graph's calls take memory of the pool"


def _origin(alloc: RawRecord) -> tuple[str, str, str]:
    """The key that the lives of one memory of a pool share."""
    return alloc[STREAM], alloc[SITE], alloc[WHERE]


def _kept(lives: Lifetimes, buffer: int) -> str:
    """The rule that a use after the free breaks."""
    at = lives.allocs.get(buffer)
    if at is not None and "@" in lives.journal[at][STREAM]:
        return f"what a graph left holds until its pool ({lives.journal[at][STREAM]}) gives the memory out again"
    return "memory that a graph was captured with has to live as long as the graph is replayed"


def used_after_free(journal: list[RawRecord]) -> list[tuple[int, int]]:
    """(index in the journal, buffer) of each use of memory that was freed before the op was issued, in order.

    The contract refuses such a use, with two exceptions. A replay of a graph uses the memory of its capture, whether it
    is freed or not. A weak reference to a graph's output is invalid once the graph's pool has given the memory away.
    Journals show both, in the order of issue.

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
