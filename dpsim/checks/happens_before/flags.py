"""The set of a flag that releases a waiting stream, if the journal of the rank determines it.

A stream looks at a flag when it reaches its wait, and no record has that time. Either the flag is set by then, or the
next set releases the stream. If a thread clears the flag later, before a host learned that the stream had passed, the
stream may have missed that set. Then another set may have released it:

    stream waits for f    u1: set f    main: clear f    u2: set f                                    either of the two
    stream waits for f    u1: set f    main reads a later result    main: clear f    u2: set f       the first

If one thread makes all sets, the first one has the least knowledge, so it is a safe choice. If several threads do,
nothing is certain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.checks.happens_before.clocks import Clock, Clocks
from dpsim.checks.happens_before.points import Signal, Waiter
from dpsim.contract.ops import (
    ADDRESS,
    EVENT,
    FLAG,
    FLAG_AWAITED,
    FLAG_HOW,
    KIND,
    LEARNED_OUTCOME,
    STREAM,
    THREAD,
    RawRecord,
)


class Passing(NamedTuple):
    """How a wait of a stream for a flag may end. `by`: the index of the first set that releases it, None if there is
    none. `sure`: the knowledge at that set holds behind the wait. `missed`: a thread cleared the flag after that,
    perhaps before the stream looked, and no thread set it again.
    """

    by: int | None
    sure: bool = True
    missed: bool = False


def passings(journal: list[RawRecord]) -> dict[int, Passing]:
    """The passing of each wait, by its index."""
    writes: dict[str, list[int]] = {}  # by flag: sets and clears, alternating
    waits: dict[int, int | None] = {}  # with the place where a host first learned that it is over
    under_way: dict[str, list[int]] = {}
    marks: dict[int, tuple[str, int]] = {}
    asked: dict[tuple[Any, ...], tuple[str, int]] = {}
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "flag" and raw[FLAG_HOW] in ("set", "clear"):
            row = writes.setdefault(raw[FLAG], [])
            if raw[FLAG_HOW] != (journal[row[-1]][FLAG_HOW] if row else "clear"):
                row.append(at)
        elif kind == "flag_wait":
            waits[at] = None
            under_way.setdefault(raw[STREAM], []).append(at)
        elif kind == "mark":
            marks[raw[EVENT]] = raw[STREAM], at
        elif kind == "read":
            asked[raw[ADDRESS]] = raw[STREAM], at
        elif kind == "ask" and raw[EVENT] in marks:
            asked[raw[ADDRESS]] = marks[raw[EVENT]]
        elif kind == "learned" and raw[ADDRESS] in asked and raw[LEARNED_OUTCOME] is not False:
            stream, point = asked.pop(raw[ADDRESS])
            for wait in under_way.get(stream, ()):
                if wait < point and waits[wait] is None:
                    waits[wait] = at
    return {at: _passing(journal, writes.get(journal[at][FLAG_AWAITED], []), at, end) for at, end in waits.items()}


def _passing(journal: list[RawRecord], writes: list[int], at: int, end: int | None) -> Passing:
    """`end`: the place where a host learned that the wait at `at` is over."""
    before = [write for write in writes if write < at]
    later = [write for write in writes if write > at and (end is None or write < end)]
    if len(before) % 2:
        later.insert(0, before[-1])
    if not later:
        return Passing(None)
    sure = len({journal[one][THREAD] for one in later[::2]}) == 1
    return Passing(later[0], sure, len(later) % 2 == 0 and end is None)


class FlagSignals:
    """The points at which waits of streams for flags end. The walk sets each when it reaches the set of the flag."""

    def __init__(self, journal: list[RawRecord]) -> None:
        self._ends: dict[int, Signal] = {}
        self._sets: dict[int, list[tuple[Signal, bool]]] = {}
        for at, passing in passings(journal).items():
            signal = self._ends[at] = Signal()
            if passing.by is not None:
                self._sets.setdefault(passing.by, []).append((signal, passing.sure))

    def end(self, at: int) -> Signal:
        """The signal of the wait with that index."""
        return self._ends[at]

    def come(self, at: int, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """The walk has reached a record that may set a flag."""
        for signal, sure in self._sets.get(at, ()):
            signal.set(clock if sure else clocks.nothing, 0, 0, ready)
