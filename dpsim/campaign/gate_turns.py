"""Which calls of a run of the simulation came after which, where threads of a rank or ranks at a store take turns.

    main is at read[0], then u1 at add[0]   ->   Turn("thread", (0, "u1", "add", 0), before=(0, "main", "read", 0))

A run without time has its order in labels (`SimRun.order`). A run in time has the order of a rank's threads in its
journal alone, and none at stores.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.contract.gates import Address, Turn
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    STORE_HOW,
    STORE_NODE,
    STORE_PORT,
    THREAD,
    RawRecord,
)
from dpsim.contract.world import Run

Port: TypeAlias = tuple[int, int]

_LABEL = re.compile(r"rank (\d+)(?:/(\S+))? (.+?)(?: (\S+)\[(\d+)\]| #(\d+))")
_SERVED = frozenset({"sets", "asks at", "changes", "closes"})
_NO_TURN = frozenset({"finished", "raised", "injected", "free", "kept"})


def _order(run: Run) -> list[str]:
    """The labels of a run, if it has them."""
    order: list[str] = getattr(run, "order", [])
    return order


class Point(NamedTuple):
    """A turn of a thread: the beginning of a call, or its end."""

    at: Address
    end: bool = False


def turns_of_threads(run: Run) -> list[Turn]:
    """For each rank with several threads: each turn comes after the one before it."""
    turns = []
    for rank, journal in enumerate(run.journals):
        if len({raw[THREAD] for raw in journal}) < 2:
            continue
        points = _in_labels(rank, journal, _order(run)) or _in_journal(rank, journal)
        turns += _chained(list(dict.fromkeys(points)))
    return turns


def _chained(points: list[Point]) -> list[Turn]:
    next_of: dict[Point, Point] = {}
    last: dict[str, Point] = {}
    for point in points:
        thread = point.at[1]
        if thread in last:
            next_of[last[thread]] = point
        last[thread] = point
    turns = []
    for before, point in pairwise(points):
        # A thread that waits for an outcome runs no Python until then.
        runs_on = before in next_of and not next_of[before].end
        turns.append(Turn("thread", point.at, before.at, point.end, before.end, runs_on))
    return turns


def _in_labels(rank: int, journal: list[RawRecord], order: list[str]) -> list[Point]:
    learned: defaultdict[str, list[Address]] = defaultdict(list)
    for raw in journal:
        if raw[KIND] == "learned":
            learned[raw[THREAD]].append((rank, *raw[ADDRESS]))
    parsed = [found.groups() for found in map(_LABEL.fullmatch, order) if found is not None and int(found[1]) == rank]
    resumed = Counter(thread or MAIN for _, thread, what, _, _, _ in parsed if what == "goes on")
    points = []
    for _, name, what, site, ordinal, number in parsed:
        thread = name or MAIN
        if what == "comes to":
            points.append(Point((rank, thread, site, int(ordinal))))
        elif what == "starts":
            points.append(Point((rank, thread, "", int(number))))
        elif what == "goes on" and resumed[thread] == len(learned[thread]):
            points.append(Point(learned[thread][int(number)], end=True))
    return points


def _in_journal(rank: int, journal: list[RawRecord]) -> list[Point]:
    """Records of a replayed graph have no turns, so a rank that replays one has no turns."""
    if any(raw[KIND] == "replay" for raw in journal):
        return []
    return [Point((rank, *raw[ADDRESS]), raw[KIND] == "learned") for raw in journal if raw[KIND] not in _NO_TURN]


def turns_at_stores(run: Run) -> list[Turn]:
    """For each store: each call that was served comes after the one that was served before."""
    calls: dict[Address, RawRecord] = {}
    learned: dict[Address, object] = {}
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "store":
                calls[rank, *raw[ADDRESS]] = raw
            elif raw[KIND] == "learned":
                learned[rank, *raw[ADDRESS]] = raw[LEARNED_OUTCOME]
    served: list[tuple[Port, Address]] = []
    for found in map(_LABEL.fullmatch, _order(run)):
        if found is None or found[4] is None:
            continue
        at = int(found[1]), found[2] or MAIN, found[4], int(found[5])
        call = calls.get(at)
        if call is None:
            continue
        if found[3] == "listens at" and learned.get(at) is not None:
            served.append(((call[STORE_NODE], int(str(learned[at]))), at))
        elif found[3] in _SERVED and (call[STORE_HOW] in ("set", "close") or learned.get(at) is not None):
            served = [one for one in served if one[1] != at]  # a look that came too early comes again
            served.append(((call[STORE_NODE], call[STORE_PORT]), at))
    last: dict[Port, Address] = {}
    turns = []
    for port, at in served:
        if calls[at][STORE_HOW] != "open" and port in last and calls[last[port]][STORE_HOW] != "open":
            turns.append(Turn("store", at, last[port]))
        last[port] = at
    return turns
