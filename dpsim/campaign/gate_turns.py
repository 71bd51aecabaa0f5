"""Gate turns: finds the order in which the threads of a rank, or ranks at a store, took turns in a simulated run.

    main is at read[0], then u1 at add[0]   ->   Turn("thread", (0, "u1", "add", 0), before=(0, "main", "read", 0))

An untimed run has its steps as labels (`SimRun.order`). For a timed run, only the journals show the order of a rank's
threads, and nothing shows the order at stores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.contract.events import ASKS, CHANGES, CLOSES, GOES_ON, LISTENS, REACHES, SETS, STARTS, ScheduleEvent
from dpsim.contract.gates import Address, Turn
from dpsim.contract.kinds import RANK_ENDS, SHARED
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    STORE_HOW,
    STORE_NODE,
    STORE_PORT,
    THREAD,
    RawRecord,
)
from dpsim.contract.world import Run

Port: TypeAlias = tuple[int, int]

_SERVED = frozenset({SETS, ASKS, CHANGES, CLOSES})
_NO_TURN = (SHARED | RANK_ENDS | {"kept"}) - {"learned"}


def _order(run: Run) -> list[ScheduleEvent]:
    return [event for event in map(ScheduleEvent.read, getattr(run, "order", ())) if event is not None]


class Point(NamedTuple):
    """The beginning of a call of a thread, or its end."""

    at: Address
    end: bool = False


def turns_of_threads(run: Run) -> list[Turn]:
    """Returns, for each rank with several threads, a turn for each point: it comes after the previous point."""
    turns = []
    for rank, journal in enumerate(run.journals):
        threads: defaultdict[str, list[RawRecord]] = defaultdict(list)
        for raw in journal:
            threads[raw[THREAD]].append(raw)
        if len(threads) > 1:
            points = _in_labels(rank, threads, _order(run)) or _in_journal(rank, journal)
            turns += _chained(list(dict.fromkeys(points)), _before_an_end(rank, threads))
    return turns


def _before_an_end(rank: int, threads: dict[str, list[RawRecord]]) -> set[Point]:
    """Returns the points after which a thread ends, or waits for a result and executes no Python code until then."""
    pairs = [pair for records in threads.values() for pair in pairwise(records)]
    last = {_point(rank, records[-1]) for records in threads.values()}
    return last | {_point(rank, raw) for raw, later in pairs if later[KIND] == "learned"}


def _point(rank: int, raw: RawRecord) -> Point:
    return Point((rank, *raw[ADDRESS]), raw[KIND] == "learned")


def _chained(points: list[Point], waits: set[Point]) -> list[Turn]:
    last: dict[str, Point] = {}
    next_of: dict[Point, Point] = {}
    for point in points:
        thread = point.at[1]
        if thread in last:
            next_of[last[thread]] = point
        last[thread] = point
    turns = []
    for before, point in pairwise(points):
        runs_on = before not in waits and not (before in next_of and next_of[before].end)
        turns.append(Turn("thread", point.at, before.at, point.end, before.end, runs_on))
    return turns


def _in_labels(rank: int, threads: dict[str, list[RawRecord]], order: list[ScheduleEvent]) -> list[Point]:
    """Returns the points of a rank in the order of its events. GOES_ON is the end of a call."""
    points: list[Point | None] = []
    visits: defaultdict[str, list[int | Point]] = defaultdict(list)
    for event in order:
        if event.rank != rank:
            continue
        thread = event.thread
        if event.verb == GOES_ON:
            visits[thread].append(len(points))
            points.append(None)
        elif event.verb == REACHES and event.ordinal is not None:
            point = Point((rank, thread, event.site, event.ordinal))
            visits[thread].append(point)
            points.append(point)
        elif event.verb == STARTS and event.number is not None and not event.site:
            point = Point((rank, thread, "", event.number))
            visits[thread].append(point)
            points.append(point)
    for thread, its in visits.items():
        for place, end in _ends(rank, threads.get(thread, []), its):
            points[place] = end
    return [point for point in points if point is not None]


def _ends(rank: int, records: list[RawRecord], visits: list[int | Point]) -> Iterator[tuple[int, Point]]:
    at, places = 0, list[int]()
    for visit in [*visits, None]:
        if isinstance(visit, int):
            places.append(visit)
            continue
        calls = range(at, len(records))
        until = next((one for one in calls if _point(rank, records[one]) == visit), len(records))
        if visit is not None and until == len(records):  # a call without a record
            continue
        learned = [_point(rank, raw) for raw in records[at:until] if raw[KIND] == "learned"]
        yield from zip(reversed(places), reversed(learned), strict=False)
        at, places = until, []


def _in_journal(rank: int, journal: list[RawRecord]) -> list[Point]:
    """Returns the points in the order of the journal. A rank that replays graphs has only those of its flags."""
    replays = any(raw[KIND] == "replay" for raw in journal)
    having = [raw for raw in journal if (raw[KIND] == "flag" if replays else raw[KIND] not in _NO_TURN)]
    return [_point(rank, raw) for raw in having]


def turns_at_stores(run: Run) -> list[Turn]:
    """Returns, for each store, a turn for each call: the store serves it after the previous call."""
    calls: dict[Address, RawRecord] = {}
    learned: dict[Address, object] = {}
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "store":
                calls[rank, *raw[ADDRESS]] = raw
            elif raw[KIND] == "learned":
                learned[rank, *raw[ADDRESS]] = raw[LEARNED_OUTCOME]
    served: list[tuple[Port, Address]] = []
    for event in _order(run):
        if event.rank is None or event.ordinal is None:
            continue
        at = event.rank, event.thread, event.site, event.ordinal
        call = calls.get(at)
        if call is None:
            continue
        if event.verb == LISTENS and learned.get(at) is not None:
            served.append(((call[STORE_NODE], int(str(learned[at]))), at))
        elif event.verb in _SERVED and (call[STORE_HOW] in ("set", "close") or learned.get(at) is not None):
            served = [one for one in served if one[1] != at]  # a get that came too early repeats
            served.append(((call[STORE_NODE], call[STORE_PORT]), at))
    last: dict[Port, Address] = {}
    turns = []
    for port, at in served:
        if calls[at][STORE_HOW] != "open" and port in last and calls[last[port]][STORE_HOW] != "open":
            turns.append(Turn("store", at, last[port]))
        last[port] = at
    return turns
