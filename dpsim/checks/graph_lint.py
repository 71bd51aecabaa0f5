"""Graph lint: finds mistakes in captured CUDA graphs that neither raise an error nor stop the run.

* GRAPH:HOST_EFFECT: a host thread sent a message, or set a key of a store, while it captured. This happened once, at
  capture, and no replay repeats it. A peer that waits for one message in each step then hangs.
* GRAPH:UNPAIRED: in one collective or transfer, some members replay a captured call. The others call eagerly, or replay
  a call of another capture. NCCL requires that all members replay the same capture, or that none does.

    rank 0   capture g: all_reduce    replay g          step 2: all_reduce #1 is call 0 of capture 0
    rank 1   capture g: all_reduce    all_reduce        step 2: all_reduce #1 is eager            ->   GRAPH:UNPAIRED

The captures of different ranks correspond by their order, whatever the names of their graphs. If ranks captured
different calls, the finding lists the captures of each rank. For a member that called eagerly, it also lists the
captures that the rank had abandoned.

The check compares, for each collective and transfer, which members captured the call. It ignores calls that a capture
forbids, because they raise at once. The check `stale` finds replays that use freed memory. Source: NCCL's documentation
of CUDA graphs, "captured or not must be uniform over the ranks".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dpsim.checks.finding import Fact, Finding, fact
from dpsim.checks.run_index import Entry, RunIndex, first_difference, more_like_it
from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import (
    CAPTURE_WHAT,
    COMMUNICATOR,
    GRAPH,
    KEPT_CALL,
    KEPT_FIELDS,
    KIND,
    OP,
    REPLAY_CALLS,
    STORE_HOW,
    STREAM,
    THREAD,
    TRANSFER_PEER,
    WHERE,
    RawRecord,
)
from dpsim.contract.rules.replay_frame import UNCOUNTED

Line: TypeAlias = str | tuple[str, int, int]
"""Calls that pair up in order: the collectives of a communicator, or its transfers from one rank to another."""


K = TypeVar("K", bound=Hashable)


class CapturedCall(NamedTuple):
    """A captured call. `capture` counts the captures with calls of its line, and `number` counts the calls in the
    capture.
    """

    capture: int
    number: int


EAGER = CapturedCall(-1, -1)


def check(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for host effects, and one for each communicator and each direction
    between two ranks.
    """
    journals = run_index.run.journals
    if not any(map(has_graphs, journals)):
        return []
    findings = _messages(run_index)
    paired = [calls(rank, journal) for rank, journal in enumerate(journals)]
    lines: dict[Line, dict[int, list[Entry]]] = dict(run_index.collectives.items())
    lines |= {line: {line[1]: sends, line[2]: got} for line, (sends, got) in run_index.transfers.items()}
    for name, members in lines.items():
        found = _unpaired(run_index, name, members, paired)
        if found is not None:
            findings.append(found)
    return findings


def has_graphs(journal: list[RawRecord]) -> bool:
    """Returns whether the rank captured anything."""
    return any(raw[KIND] == "capture" for raw in journal)


def calls(rank: int, journal: list[RawRecord]) -> dict[Line, list[CapturedCall]]:
    """Returns the calls of a rank's device by line. Each is the captured call that was replayed, or EAGER."""
    captured: dict[str, dict[Line, list[CapturedCall]]] = {}  # by graph
    captures: Counter[Line] = Counter()
    found: dict[Line, list[CapturedCall]] = {}
    kept: dict[Line, list[CapturedCall]] = {}
    left, replayed = 0, dict[Line, list[CapturedCall]]()
    for raw in journal:
        kind = raw[KIND]
        if kind in MEETS and raw[STREAM] is not None:
            line = _line(rank, kind, raw)
            row = replayed.get(line) if left else None
            found.setdefault(line, []).append(row.pop() if row else EAGER)
        elif kind == "kept" and raw[KEPT_CALL] in MEETS:
            line = _kept_line(rank, raw)
            row = kept.setdefault(line, [])
            row.append(CapturedCall(captures[line], len(row)))
        elif kind == "capture":
            if raw[CAPTURE_WHAT] == "end":
                captured[raw[GRAPH]] = kept
                captures.update(kept.keys())
            kept = {}
        elif kind == "replay":
            left = raw[REPLAY_CALLS] + 1
            replayed = {line: row[::-1] for line, row in captured[raw[GRAPH]].items()}
        if left and kind not in UNCOUNTED:
            left -= 1
    return found


def _line(rank: int, kind: str, raw: Sequence[Any], shift: int = 0) -> Line:
    """Returns the line of a raw record.

    A `kept` record contains only the fields that a capture keeps of a call. There, the indexes are smaller by `shift`.
    """
    name: str = raw[COMMUNICATOR - shift]
    if kind == "collective":
        return name
    peer = raw[TRANSFER_PEER - shift]
    return (name, rank, peer) if raw[OP - shift] == "send" else (name, peer, rank)


def _kept_line(rank: int, raw: RawRecord) -> Line:
    return _line(rank, raw[KEPT_CALL], raw[KEPT_FIELDS], WHERE + 1)


def agreed(journals: list[list[RawRecord]]) -> bool:
    """Returns whether this check certainly finds nothing.

    No rank has a host effect in a capture, and on each line all members captured and replayed the same calls.
    """
    known: dict[Line, list[CapturedCall]] = {}
    for rank, journal in enumerate(journals):
        if any(True for _ in _sent(journal)):
            return False
        for line, row in calls(rank, journal).items():
            if known.setdefault(line, row) != row:
                return False
    return True


def _sent(journal: list[RawRecord]) -> list[int]:
    found: list[int] = []
    sent: list[int] = []
    threads: set[str] = set()
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "capture":
            found += [one for one in sent if journal[one][THREAD] in threads]
            sent, threads = [], {raw[THREAD]} if raw[CAPTURE_WHAT] == "begin" else set()
        elif threads and kind == "kept":
            threads.add(raw[THREAD])
        elif threads and (kind == "post" or (kind == "store" and raw[STORE_HOW] == "set")):
            sent.append(at)
    return found + [one for one in sent if journal[one][THREAD] in threads]


def _messages(run_index: RunIndex) -> list[Finding]:
    entries = [
        Entry(rank, at, journal[at]) for rank, journal in enumerate(run_index.run.journals) for at in _sent(journal)
    ]
    if not entries:
        return []
    first = min(entries, key=lambda entry: (run_index.position(entry), entry.rank))
    journal = run_index.run.journals[first.rank]
    graph = next(raw[GRAPH] for raw in reversed(journal[: first.at]) if raw[KIND] == "capture")
    return [
        Finding(
            check="graph_lint",
            klass="GRAPH:HOST_EFFECT",
            message=fact("host_effect", rank=first.rank, call=first.record, graph=graph, more=more_like_it(entries)),
            culprit=run_index.of_all(first, entries),
            position=run_index.position(first),
        )
    ]


def _unpaired(
    run_index: RunIndex, name: Line, members: dict[int, list[Entry]], paired: list[dict[Line, list[CapturedCall]]]
) -> Finding | None:
    rows = {rank: paired[rank].get(name, []) for rank in members}
    for seq in range(max(map(len, rows.values()), default=0)):
        here = {rank: row[seq] for rank, row in rows.items() if seq < len(row)}
        if len(set(here.values())) > 1:
            return _finding(run_index, name, seq, here, members)
    return None


def _finding(
    run_index: RunIndex, name: Line, seq: int, here: dict[int, CapturedCall], members: dict[int, list[Entry]]
) -> Finding:
    ways = Counter(here.values()).most_common()
    usual = ways[0][0] if len(ways) == 1 or ways[0][1] > ways[1][1] else None
    odd = [rank for rank, call in here.items() if call != usual] if usual is not None else list(here)
    first = min((members[rank][seq] for rank in odd), key=lambda one: (run_index.position(one), one.rank))
    before = {rank: run_index.run.journals[rank][: members[rank][seq].at] for rank in here}
    differ, captures = _captures(name, {rank: captured(rank, name, journal) for rank, journal in before.items()})
    sides = tuple(
        _side(run_index, some, way, name, members[some[0]][seq])
        for way, _ in ways
        for some in [[rank for rank, call in here.items() if call == way]]
    )
    return Finding(
        check="graph_lint",
        klass="GRAPH:UNPAIRED",
        message=fact("unpaired_mode", call=first.record, sides=sides, differ=differ),
        culprit=run_index.culprit(first) if usual is not None else None,
        position=run_index.position(first),
        details=(*sides, *captures, *_given_up({rank: before[rank] for rank, call in here.items() if call == EAGER})),
    )


def _side(run_index: RunIndex, ranks: list[int], way: CapturedCall, name: Line, entry: Entry) -> Fact:
    side = {"ranks": tuple(ranks), "where": entry.record.where}
    if way == EAGER:
        return fact("calls_eagerly", **side)
    journal = run_index.run.journals[entry.rank][: entry.at]
    graph = next(raw[GRAPH] for raw in reversed(journal) if raw[KIND] == "replay")
    own = dict(captured(entry.rank, name, journal))[graph]
    return fact("replays_call", **side, replay=run_index.within(entry), number=way.number + 1, calls=own)


def captured(rank: int, name: Line, journal: Sequence[RawRecord]) -> list[tuple[str, int]]:
    """Returns the graphs that a rank captured with calls of a line, in order, and the number of these calls in each."""
    found, own = [], 0
    for raw in journal:
        if raw[KIND] == "kept" and raw[KEPT_CALL] in MEETS:
            own += _kept_line(rank, raw) == name
        elif raw[KIND] == "capture":
            if own and raw[CAPTURE_WHAT] == "end":
                found.append((raw[GRAPH], own))
            own = 0
    return found


def _captures(name: Line, rows: dict[int, list[tuple[str, int]]]) -> tuple[Fact | None, list[Fact]]:
    """Returns the first difference between the ranks' captures, and the captures of each rank.

    There are none if the captures are equal. If the ranks have no graph name in common, only the numbers of calls
    count.
    """
    named = bool(set.intersection(*({graph for graph, _ in row} for row in rows.values())))
    at = first_difference([row if named else [calls for _, calls in row] for row in rows.values()])
    if at is None:
        return None, []
    line = name if isinstance(name, str) else fact("one_way", communicator=name[0], sender=name[1], receiver=name[2])
    firsts = _folded({rank: _graphs(row[at : at + 1]) for rank, row in rows.items()})
    sides = tuple(fact("captured", ranks=ranks, graphs=graphs) for graphs, ranks in firsts)
    whole = _folded({rank: _graphs(row) for rank, row in rows.items()})
    return fact("captures_differ", line=line, number=at + 1, sides=sides), [
        fact("captured_in_order", ranks=ranks, line=line, graphs=graphs) for graphs, ranks in whole
    ]


def _graphs(row: list[tuple[str, int]]) -> Fact:
    first = [fact("first_graph", graph=graph, calls=own) for graph, own in row[:1]]
    rest = [fact("graph", graph=graph, calls=own) for graph, own in row[1:]]
    return fact("graphs", graphs=(*first, *rest)) if row else fact("no_graphs")


def _given_up(eager: dict[int, list[RawRecord]]) -> list[Fact]:
    """Returns the captures that ranks abandoned and did not repeat."""
    given_up: dict[int, tuple[Fact, ...]] = {}
    for rank, journal in eager.items():
        last = {raw[GRAPH]: raw for raw in journal if raw[KIND] == "capture"}
        abandoned = [raw for raw in last.values() if raw[CAPTURE_WHAT] == "abandon"]
        if abandoned:
            given_up[rank] = tuple(fact("of_graph", graph=raw[GRAPH], where=raw[WHERE]) for raw in abandoned)
    return [fact("gave_up_capture", ranks=ranks, graphs=graphs) for graphs, ranks in _folded(given_up)]


def _folded(values: dict[int, K]) -> list[tuple[K, tuple[int, ...]]]:
    sides: dict[K, list[int]] = {}
    for rank, value in values.items():
        sides.setdefault(value, []).append(rank)
    return [(value, tuple(ranks)) for value, ranks in sides.items()]
