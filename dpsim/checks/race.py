"""Race: two accesses of one piece of memory, one of them a write, without an order.

Vector clocks find races even if the run passed: in another run the two accesses may have the opposite order. There is
at most one finding for each class and pair of buffers, which the sites of their allocs name. It shows the earliest
race, and the message counts the rest, on all ranks.

* RACE:BUFFER: both through the same buffer (whole or views).
* RACE:REUSED_IN_FLIGHT: an access of an older buffer has no order with a write of a newer one. The newer one may get
  the memory of the older one, in this run or in another (`dpsim.checks.memory.reuse`).

    rank 0 step 3: kernel write.h on stream main  and  kernel use.h on stream side
    -> stream side must wait for an event recorded on stream main after write.h

If several accesses of a stream have no order with a later one, the fix names the last of them. If both orders are
possible, it names both: a later read of earlier contents may go first, and so may a later write.

The culprit is the access that lacks the order: the one issued later. For reuse it is the access of the older buffer, if
no call named its stream to the allocator. Otherwise it is that of the newer buffer. If the same line lacks the order in
the same step of several ranks, the culprit is that line on all of them.

Prior art: `torch.cuda._sanitizer`, whose reports name both accesses too; it has no reuse, no views, no other ranks.
"""

from __future__ import annotations

from dpsim.checks.finding import Finding
from dpsim.checks.happens_before.hosts import WRITES
from dpsim.checks.memory.cells import Access
from dpsim.checks.memory.shadow import Memory, Pair
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import BUFFER, GRAPH, KIND, ORDINAL, SITE, STEP, STREAM, WHERE, RawRecord, as_record
from dpsim.contract.rules.replay_frame import replay_at, within


def check(run_index: RunIndex) -> list[Finding]:
    """At most one finding for each class and pair of buffer sites."""
    return races(run_index, run_index.memory) if run_index.buffers else []


def races(run_index: RunIndex, memory: Memory) -> list[Finding]:
    lives = [Lifetimes(journal) for journal in run_index.run.journals] if memory.pairs else []
    earliest: dict[tuple[str, str, str], tuple[tuple[int, int], Pair]] = {}
    alike: dict[tuple[str, str, str], list[Pair]] = {}
    seen: set[tuple[int, int, int, int, int]] = set()
    latest: dict[tuple[int, int, str, int], Access] = {}  # the last access without an order with a later one
    for pair in memory.pairs:
        rank, first, second = pair
        once = rank, first.at, second.at, first.buffer, second.buffer
        if once in seen:  # the same two ops, on another piece
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
        found.append(_finding(run_index, lives[rank], key[0], pair, last, position, lack))
    return found


class Lifetimes:
    """The beginnings and ends of the buffers of a rank, and the streams that record_stream named."""

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
        """The stream whose pool the buffer comes from."""
        return str(self.journal[self.allocs[buffer]][STREAM])

    def name(self, buffer: int) -> str:
        at = self.allocs.get(buffer)
        return f"buffer {buffer}" if at is None else _op(self.journal[at])


def _op(raw: RawRecord) -> str:
    return f"{raw[SITE]}[{raw[ORDINAL]}]"


def summary(rank: int, access: Access, journal: list[RawRecord], name: str) -> str:
    """One access in words."""
    raw = journal[access.at]
    return (
        f"rank {rank}, step {raw[STEP]}: {_op(raw)} ({as_record(raw).describe()}) {access.how}s {name} "
        f"on stream {access.stream.name}" + (f" at {raw[WHERE]}" if raw[WHERE] else "") + _in(access, journal)
    )


def _in(access: Access, journal: list[RawRecord]) -> str:
    """The replay of an access, and the meaning of its stream's name, if the program has no stream of that name."""
    at = replay_at(journal, access.at)
    if at is None:
        return ""
    name = str(access.stream.name)
    stream, _, graph = name.rpartition("@")
    branch = f" ({name}: what {graph} captured on stream {stream})" if graph == journal[at][GRAPH] else ""
    return f", in {within(journal, access.at)}{branch}"


def _finding(
    run_index: RunIndex,
    lives: Lifetimes,
    klass: str,
    pair: Pair,
    last: Access,
    position: tuple[int, int],
    alike: list[Entry],
) -> Finding:
    """`last`: the last access like the first. `alike`: the access that lacks the order, in each pair of this class and
    buffers.
    """
    rank, first, second = pair
    journal = run_index.run.journals[rank]
    culprit, cure = _lacks(lives, klass, last, second), _order(second, last, journal)
    other = _other_order(first, second, journal) if klass == "RACE:BUFFER" else []
    if klass == "RACE:REUSED_IN_FLIGHT":
        cure = _reuse(lives, last, second)
    raw, more, ranks = journal[culprit.at], len(alike) - 1, len({entry.rank for entry in alike})
    rest = f" (and {more} more like it, on {ranks} rank{'s' * (ranks > 1)})" if more else ""
    what = lives.name(first.buffer)
    if klass == "RACE:REUSED_IN_FLIGHT":
        what = f"the memory of {lives.name(first.buffer)}, which may be given to {lives.name(second.buffer)},"
    return Finding(
        check="race",
        klass=klass,
        message=f"rank {rank}: {_short(first, journal)} and {_short(second, journal)} touch {what} in no order; "
        f"{cure}{rest}",
        culprit=run_index.of_all(Entry(rank, culprit.at, raw), alike),
        position=position,
        details=(
            summary(rank, first, journal, lives.name(first.buffer)),
            summary(rank, second, journal, lives.name(second.buffer)),
            f"to order them: {cure}",
            *other,
        ),
    )


def _short(access: Access, journal: list[RawRecord]) -> str:
    return f"{access.how} {_op(journal[access.at])} on stream {access.stream.name}"


def _order(late: Access, early: Access, journal: list[RawRecord]) -> str:
    if late.group is not None and late.group == early.group:
        return "transfers of one coalesced group have no order; use two groups, or memory that does not overlap"
    first, second = replay_at(journal, early.at), replay_at(journal, late.at)
    if first is not None and first == second:
        graph = journal[first][GRAPH]
        waits, marked = (_captured_on(one, graph, journal) for one in (late, early))
        return (
            f"in the capture of graph {graph}, stream {waits} must wait for an event recorded on stream {marked} after "
            f"{journal[early.at][SITE]}"
        )
    waits, marked = late.stream.name, early.stream.name
    after, before = _op(journal[early.at]), ""
    if first is not None:  # at its end, its branches have ended too
        marked, after = journal[first][STREAM], within(journal, early.at)
    if second is not None:
        waits, before = journal[second][STREAM], f", before {within(journal, late.at)}"
    return f"stream {waits} must wait for an event recorded on stream {marked} after {after}{before}"


def _other_order(first: Access, second: Access, journal: list[RawRecord]) -> list[str]:
    """The fix by the opposite order, if the program could issue the two in that order. It cannot move an op of a
    replay, nor a first write behind its readers.
    """
    replays = replay_at(journal, first.at), replay_at(journal, second.at)
    if replays != (None, None) or (first.group is not None and first.group == second.group):
        return []
    if second.how == "read" and not any(_writes(raw, first.buffer) for raw in journal[: first.at]):
        return []
    return [
        f"or the other way round: stream {first.stream.name} must wait for one recorded on stream "
        f"{second.stream.name} after {_op(journal[second.at])}, before {_op(journal[first.at])}"
    ]


def _writes(raw: RawRecord, buffer: int) -> bool:
    at = WRITES.get(raw[KIND])
    return at is not None and raw[STREAM] is not None and any(ref[0] == buffer for ref in raw[at])


def _captured_on(access: Access, graph: str, journal: list[RawRecord]) -> str:
    """The stream of the program on which the capture kept a call."""
    name = str(access.stream.name)
    if name.endswith(f"@{graph}"):
        return name.removesuffix(f"@{graph}")
    return next(str(raw[STREAM]) for raw in reversed(journal) if raw[KIND] == "capture" and raw[GRAPH] == graph)


def _lacks(lives: Lifetimes, klass: str, old: Access, new: Access) -> Access:
    """The access that lacks the order. For reused memory, this is the old one, if no call named its stream."""
    return old if klass == "RACE:REUSED_IN_FLIGHT" and _untold(lives, old) else new


def _untold(lives: Lifetimes, old: Access) -> bool:
    """Whether no call named the stream of an access to the allocator. A graph's pool has no stream of the program."""
    home, side = lives.home(old.buffer), old.stream.name
    return side != home and side not in lives.used.get(old.buffer, []) and "@" not in home


def _reuse(lives: Lifetimes, old: Access, new: Access) -> str:
    """The fix that orders accesses of reused memory."""
    if not _untold(lives, old):
        return _order(new, old, lives.journal)
    home, name, side = lives.home(old.buffer), lives.name(old.buffer), old.stream.name
    used = lives.used.get(old.buffer, [])
    wrong = f" (record_stream named {', '.join(sorted(used))})" if used else ""
    return (
        f"call record_stream({side}) on {name} before its free{wrong}, "
        f"or let stream {home} wait for stream {side} before it"
    )
