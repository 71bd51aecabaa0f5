"""Stale replay: finds a replay that reads the input of the replay before it, although it needs new input each time.

    x = main.alloc(4, "int32", "x", per_replay=True)        # each replay of a graph reads fresh contents
    host:     write x    replay 0 of g: read x    replay 1 of g: read x      ->   STALE:NOT_WRITTEN_FOR_REPLAY

An op must write the elements of such a buffer between two replays of one graph that read them. Any write counts: an
eager kernel, another graph, or the replay itself. Several graphs may each read one write once.

The check reads journals in the order of issue. A write that is issued before the replay, but unordered with it, is a
race (`dpsim.checks.race`).

By default, `repeated` inspects all buffers and not only those with `per_replay`. The explorer uses this to count
replays that read old contents.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple, TypeAlias

from dpsim.checks.finding import Finding, fact
from dpsim.checks.run_index import Entry, RunIndex, more_like_it
from dpsim.contract.kinds import READS, WRITES
from dpsim.contract.ops import (
    BUFFER,
    GRAPH,
    KEPT_CALL,
    KEPT_FIELDS,
    KIND,
    ORDINAL,
    REPLAY_CALLS,
    SITE,
    STEP,
    WHERE,
    RawRecord,
    Refs,
)
from dpsim.contract.rules.replay_frame import MADE, UNCOUNTED, within

CLASS = "STALE:NOT_WRITTEN_FOR_REPLAY"

Span: TypeAlias = tuple[int, int, int]
"""The first element, the end, and the journal index of the op that read these elements in a replay."""


class Repeated(NamedTuple):
    """A repeated read: the journal index `at` of the read, its buffer, and the index `before` of the read
    it repeats.
    """

    at: int
    buffer: int
    before: int


class _Contents:
    """For each graph and buffer, the elements that its replays have read and no op has written since."""

    def __init__(self) -> None:
        self._old: dict[tuple[str, int], list[Span]] = {}
        self._now: dict[tuple[str, int], list[Span]] = {}  # what the present replay reads

    def read(self, graph: str, refs: Refs, at: int) -> Iterator[Repeated]:
        for buffer, first, end, *_ in refs:
            for begin, stop, before in self._old.get((graph, buffer), ()):
                if begin < end and first < stop:
                    yield Repeated(at, buffer, before)
                    break
            self._now.setdefault((graph, buffer), []).append((first, end, at))

    def write(self, refs: Refs) -> None:
        for buffer, first, end, *_ in refs:
            for kept in (self._old, self._now):
                for key in kept:
                    if key[1] == buffer:
                        kept[key] = [rest for span in kept[key] for rest in _without(span, first, end)]

    def replayed(self) -> None:
        """Ends the present replay: its reads are old contents for the next one."""
        for key, spans in self._now.items():
            self._old.setdefault(key, []).extend(spans)
        self._now.clear()


def _without(span: Span, first: int, end: int) -> Iterator[Span]:
    """Yields what remains of a span without the elements from `first` to `end`.

    >>> [*_without((0, 8, 5), 2, 4)], [*_without((0, 8, 5), 0, 9)]
    ([(0, 2, 5), (4, 8, 5)], [])
    """
    begin, stop, at = span
    if begin < min(first, stop):
        yield begin, min(first, stop), at
    if max(end, begin) < stop:
        yield max(end, begin), stop, at


def repeated(journal: list[RawRecord], marked: Container[int] | None = None) -> Iterator[Repeated]:
    """Yields the reads of old contents in replays, for the buffers `marked` or by default for all.

    By default, what was written before the capture is old for the first replay.
    """
    contents, graph, left = _Contents(), "", 0
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if graph and kind not in UNCOUNTED:
            left -= 1
            if left < 0 or kind not in MADE:
                graph = ""
                contents.replayed()
        if kind == "replay":
            graph, left = raw[GRAPH], raw[REPLAY_CALLS] + 1
        elif kind == "kept" and marked is None and raw[KEPT_CALL] in READS:
            reads = raw[KEPT_FIELDS][READS[raw[KEPT_CALL]] - WHERE - 1]
            for _ in contents.read(raw[GRAPH], reads, at):
                pass
            contents.replayed()
        elif kind in READS:
            reads = raw[READS[kind]]
            if graph:
                concerned = reads if marked is None else tuple(ref for ref in reads if ref[0] in marked)
                yield from contents.read(graph, concerned, at)
            if kind in WRITES:
                contents.write(raw[WRITES[kind]])


def marked(journal: list[RawRecord]) -> set[int]:
    """Returns the buffers that need fresh contents for each replay."""
    return {raw[BUFFER] for raw in journal if raw[KIND] == "fresh"}


def found(run_index: RunIndex) -> list[Finding]:
    """Returns one finding for each allocation site: the first such read on any rank. The message counts the others."""
    cases: dict[tuple[str, str], list[tuple[tuple[int, int], int, Repeated]]] = {}
    for rank, journal in enumerate(run_index.run.journals):
        buffers = marked(journal)
        if not buffers:
            continue
        names = {raw[BUFFER]: (raw[SITE], raw[WHERE]) for raw in journal if raw[KIND] == "alloc"}
        for one in repeated(journal, buffers):
            position = run_index.position(Entry(rank, one.at, journal[one.at]))
            cases.setdefault(names[one.buffer], []).append((position, rank, one))
    return [_finding(run_index, sorted(some)) for some in cases.values()]


def _finding(run_index: RunIndex, cases: list[tuple[tuple[int, int], int, Repeated]]) -> Finding:
    position, rank, first = cases[0]
    journal = run_index.run.journals[rank]
    entry = Entry(rank, first.at, journal[first.at])
    alloc = next(raw for raw in journal if raw[KIND] == "alloc" and raw[BUFFER] == first.buffer)
    name = f"{alloc[SITE]}[{alloc[ORDINAL]}]"
    alike = [Entry(of, one.at, run_index.run.journals[of][one.at]) for _, of, one in cases]
    last = next((raw for raw in reversed(journal[: first.at]) if _writes(raw, first.buffer)), None)
    details = [fact("read_before", replay=within(journal, first.before))]
    if last is not None:
        op = f"{last[SITE]}[{last[ORDINAL]}]"
        details.append(fact("last_written_by", op=op, step=last[STEP], where=last[WHERE]))
    details += [
        fact("says_per_replay", buffer=name, step=alloc[STEP], where=alloc[WHERE]),
        fact("write_each_time", buffer=name),
    ]
    use = fact("reads_again", buffer=name, replay=within(journal, first.at))
    return Finding(
        check="stale",
        klass=CLASS,
        message=fact("stale", rank=rank, call=entry.record, use=use, more=more_like_it(alike)),
        culprit=run_index.of_all(entry, alike),
        position=position,
        details=tuple(details),
    )


def _writes(raw: RawRecord, buffer: int) -> bool:
    return raw[KIND] in WRITES and any(ref[0] == buffer for ref in raw[WRITES[raw[KIND]]])
