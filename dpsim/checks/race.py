"""Race: finds two accesses of one memory range that happens-before does not order, if one of them is a write.

The check uses vector clocks. So it finds a race even if this run happened to execute both in the right order. It
reports at most one finding for each class and each pair of allocation sites. The finding shows the earliest race, and
its message counts the others on all ranks.

* RACE:BUFFER: both accesses are to the same buffer, directly or through views.
* RACE:REUSED_IN_FLIGHT: an access of an older buffer, and a write of a newer one. The allocator may give both the same
  memory, in this run or in another (`dpsim.checks.memory.reuse`).

    rank 0 step 3: kernel write.h on stream main  and  kernel use.h on stream side
    -> stream side must wait for an event recorded on stream main after write.h

If several accesses on one stream are unordered with a later one, the suggested fix names the last of them. If the
program could also order the two accesses the other way round, the finding suggests both ways.

The culprit is the access that lacks a wait, which is the one issued later. For reused memory, it is the access of the
older buffer if the program never called record_stream for its stream. Otherwise it is the access of the newer one. If
one source line lacks the wait in the same step of several ranks, the culprit is that line on all of them.

Prior art: `torch.cuda._sanitizer` also names both accesses. It covers neither reused memory nor views nor other ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsim.checks.finding import Fact, Finding, fact
from dpsim.checks.memory.cells import Access
from dpsim.checks.memory.shadow import Memory, Pair
from dpsim.checks.run_index import Entry, RunIndex, more_like_it
from dpsim.contract.kinds import WRITES
from dpsim.contract.ops import BUFFER, GRAPH, KIND, ORDINAL, SITE, STEP, STREAM, WHERE, RawRecord, as_record
from dpsim.contract.rules.replay_frame import replay_at, within


def check(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for each class and each pair of allocation sites."""
    return races(run_index, run_index.memory) if run_index.buffers else []


def races(run_index: RunIndex, memory: Memory) -> list[Finding]:
    lives = [Lifetimes(journal) for journal in run_index.run.journals] if memory.pairs else []
    earliest: dict[tuple[str, str, str], tuple[tuple[int, int], Pair]] = {}
    alike: dict[tuple[str, str, str], list[Pair]] = {}
    seen: set[tuple[int, int, int, int, int]] = set()
    latest: dict[tuple[int, int, str, int], Access] = {}  # the last access that is unordered with a later one
    for pair in memory.pairs:
        rank, first, second = pair
        once = rank, first.at, second.at, first.buffer, second.buffer
        if once in seen:  # the same two ops, on another range of the buffer
            continue
        seen.add(once)
        place = rank, second.at, first.stream.name, first.buffer
        if place not in latest or first.at > latest[place].at:
            latest[place] = first
        klass = "RACE:BUFFER" if first.buffer == second.buffer else "RACE:REUSED_IN_FLIGHT"
        sites = lives[rank].site(first.buffer), lives[rank].site(second.buffer)
        key = klass, min(sites), max(sites)
        position = run_index.position(Entry(rank, second.at, run_index.run.journals[rank][second.at]))
        alike.setdefault(key, []).append(pair)
        if key not in earliest or (position, rank) < (earliest[key][0], earliest[key][1].rank):
            earliest[key] = position, pair
    found = []
    for key, (position, pair) in earliest.items():
        lack = [
            Entry(rank, at, lives[rank].journal[at])
            for rank, first, second in alike[key]
            for at in [_lacks(lives[rank], key[0], latest[rank, second.at, first.stream.name, first.buffer], second).at]
        ]
        rank, first, second = pair
        last = latest[rank, second.at, first.stream.name, first.buffer]
        finding = _finding(run_index, lives[rank], key[0], pair, last, position, lack)
        found.append(replace(finding, ops=_ops(pair, alike[key])))
    return found


def _ops(pair: Pair, alike: Sequence[Pair]) -> tuple[tuple[int, int], ...]:
    first: dict[int, Pair] = {pair.rank: pair}
    for one in sorted(alike, key=lambda one: (one.rank, one.second.at, one.first.at)):
        first.setdefault(one.rank, one)
    return tuple((rank, access.at) for rank, *both in first.values() for access in both)


class Lifetimes:
    """The allocation and the free of each buffer of a rank, and the streams that record_stream named for it."""

    def __init__(self, journal: list[RawRecord]) -> None:
        self.journal = journal
        self.allocs: dict[int, int] = {}
        self.frees: dict[int, int] = {}
        self.used: dict[int, list[str]] = {}
        for at, raw in enumerate(journal):
            if raw[KIND] == "alloc":
                self.allocs[raw[BUFFER]] = at
            elif raw[KIND] == "free":
                self.frees[raw[BUFFER]] = at
            elif raw[KIND] == "used":
                names = self.used.setdefault(raw[BUFFER], [])
                if raw[STREAM] not in names:
                    names.append(raw[STREAM])

    def site(self, buffer: int) -> str:
        at = self.allocs.get(buffer)
        return f"buffer {buffer}" if at is None else str(self.journal[at][SITE])

    def home(self, buffer: int) -> str:
        """Returns the stream from whose pool the buffer comes."""
        return str(self.journal[self.allocs[buffer]][STREAM])

    def name(self, buffer: int) -> str:
        at = self.allocs.get(buffer)
        return f"buffer {buffer}" if at is None else _op(self.journal[at])


def _op(raw: RawRecord) -> str:
    return f"{raw[SITE]}[{raw[ORDINAL]}]"


def summary(rank: int, access: Access, journal: list[RawRecord], name: str) -> Fact:
    """Returns one access. `kernel` is its record if it is a kernel, and `call` if it is another op."""
    raw = journal[access.at]
    kernel = raw[KIND] == "launch"
    return fact(
        "access",
        rank=rank,
        step=raw[STEP],
        op=_op(raw),
        call=None if kernel else as_record(raw),
        kernel=as_record(raw) if kernel else None,
        how=access.how,
        buffer=name,
        stream=access.stream.name,
        where=raw[WHERE],
        inside=_in(access, journal),
    )


def _in(access: Access, journal: list[RawRecord]) -> Fact | None:
    """Returns the graph replay of an access. A stream that exists only in the graph is explained."""
    at = replay_at(journal, access.at)
    if at is None:
        return None
    name = str(access.stream.name)
    stream, _, graph = name.rpartition("@")
    branch = fact("branch", name=name, graph=graph, stream=stream) if graph == journal[at][GRAPH] else None
    return fact("inside", replay=within(journal, access.at), branch=branch)


def _finding(
    run_index: RunIndex,
    lives: Lifetimes,
    klass: str,
    pair: Pair,
    last: Access,
    position: tuple[int, int],
    alike: list[Entry],
) -> Finding:
    """Returns the finding for a pair of accesses.

    `last` is the last access of the first one's stream that is unordered with the second. `alike` contains the culprit
    access of each such pair.
    """
    rank, first, second = pair
    journal = run_index.run.journals[rank]
    culprit, cure = _lacks(lives, klass, last, second), _order(second, last, journal)
    other = _other_order(first, second, journal) if klass == "RACE:BUFFER" else []
    if klass == "RACE:REUSED_IN_FLIGHT":
        cure = _reuse(lives, last, second)
    raw = journal[culprit.at]
    new = lives.name(second.buffer) if klass == "RACE:REUSED_IN_FLIGHT" else None
    return Finding(
        check="race",
        klass=klass,
        message=fact(
            "race",
            rank=rank,
            first=_short(first, journal),
            second=_short(second, journal),
            what=fact("memory_in_use", buffer=lives.name(first.buffer), new=new) if new else lives.name(first.buffer),
            cure=cure,
            more=more_like_it(alike),
        ),
        culprit=run_index.of_all(Entry(rank, culprit.at, raw), alike),
        position=position,
        details=(
            summary(rank, first, journal, lives.name(first.buffer)),
            summary(rank, second, journal, lives.name(second.buffer)),
            fact("to_order", cure=cure),
            *other,
        ),
    )


def _short(access: Access, journal: list[RawRecord]) -> Fact:
    return fact("touch", how=access.how, op=_op(journal[access.at]), stream=access.stream.name)


def _order(late: Access, early: Access, journal: list[RawRecord]) -> Fact:
    if late.group is not None and late.group == early.group:
        return fact("use_two_groups")
    first, second = replay_at(journal, early.at), replay_at(journal, late.at)
    if first is not None and first == second:
        graph = journal[first][GRAPH]
        waits, marked = (_captured_on(one, graph, journal) for one in (late, early))
        return fact("wait_in_capture", graph=graph, waits=waits, marked=marked, after=journal[early.at][SITE])
    waits, marked = late.stream.name, early.stream.name
    after, before = _op(journal[early.at]), None
    if first is not None:  # all branches of a replay have ended when its stream continues
        marked, after = journal[first][STREAM], within(journal, early.at)
    if second is not None:
        waits, before = journal[second][STREAM], within(journal, late.at)
    return fact("wait_for_event", waits=waits, marked=marked, after=after, before=before)


def _other_order(first: Access, second: Access, journal: list[RawRecord]) -> list[Fact]:
    """Returns the fix by the opposite order, if the program could issue the two accesses in that order.

    It cannot move an op of a replay, and it cannot move the first write of a buffer behind its readers.
    """
    replays = replay_at(journal, first.at), replay_at(journal, second.at)
    if replays != (None, None) or (first.group is not None and first.group == second.group):
        return []
    if second.how == "read" and not any(_writes(raw, first.buffer) for raw in journal[: first.at]):
        return []
    after, before = _op(journal[second.at]), _op(journal[first.at])
    return [fact("other_order", waits=first.stream.name, marked=second.stream.name, after=after, before=before)]


def _writes(raw: RawRecord, buffer: int) -> bool:
    at = WRITES.get(raw[KIND])
    return at is not None and raw[STREAM] is not None and any(ref[0] == buffer for ref in raw[at])


def _captured_on(access: Access, graph: str, journal: list[RawRecord]) -> str:
    name = str(access.stream.name)
    if name.endswith(f"@{graph}"):
        return name.removesuffix(f"@{graph}")
    return next(str(raw[STREAM]) for raw in reversed(journal) if raw[KIND] == "capture" and raw[GRAPH] == graph)


def _lacks(lives: Lifetimes, klass: str, old: Access, new: Access) -> Access:
    """Returns the access that lacks a wait: the newer one, or for reused memory perhaps the older one."""
    return old if klass == "RACE:REUSED_IN_FLIGHT" and _untold(lives, old) else new


def _untold(lives: Lifetimes, old: Access) -> bool:
    """Returns whether the program never told the allocator that this stream uses the buffer.

    A buffer from a graph's pool has no stream of the program, so the result is False.
    """
    home, side = lives.home(old.buffer), old.stream.name
    return side != home and side not in lives.used.get(old.buffer, []) and "@" not in home


def _reuse(lives: Lifetimes, old: Access, new: Access) -> Fact:
    if not _untold(lives, old):
        return _order(new, old, lives.journal)
    home, name, side = lives.home(old.buffer), lives.name(old.buffer), old.stream.name
    wrong = tuple(sorted(lives.used.get(old.buffer, [])))
    return fact("record_stream", side=side, buffer=name, wrong=wrong, home=home)
