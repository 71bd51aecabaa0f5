"""By which set of a flag a stream that waits for it goes on, as far as the journal of its rank says.

A stream looks when it has come so far, and no record tells when that was. The flag may have been set then, or it is the
next set that lets the stream go on. Where the flag is cleared later, and no host had heard by then that the stream was
through, it may have missed that set and have gone on with another one:

    stream waits for f    u1: set f    main: clear f    u2: set f          which of the two, nobody knows
    stream waits for f    u1: set f    main reads what is behind    main: clear f    u2: set f          the first

Of one thread the first set knows least, so it is the one to go by. Of several, nothing is known for certain.
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
    """How a wait of a stream for a flag may end. `by`: the index of the set that lets it go on first, None if there is
    none. `sure`: what was known at that set is known behind the wait. `missed`: the flag was cleared after that,
    perhaps before the stream came to look, and never set again.
    """

    by: int | None
    sure: bool = True
    missed: bool = False


def passings(journal: list[RawRecord]) -> dict[int, Passing]:
    """Of each wait, by its index."""
    writes: dict[str, list[int]] = {}  # of each flag: what sets it and what clears it, by turns
    waits: dict[int, int | None] = {}  # with where a host first heard that it is over
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
    """`end`: where a host heard that the wait at `at` is over."""
    before = [write for write in writes if write < at]
    later = [write for write in writes if write > at and (end is None or write < end)]
    if len(before) % 2:
        later.insert(0, before[-1])
    if not later:
        return Passing(None)
    sure = len({journal[one][THREAD] for one in later[::2]}) == 1
    return Passing(later[0], sure, len(later) % 2 == 0 and end is None)


class FlagSignals:
    """The points of a walk at which waits of streams for flags end: each is set where the walk comes to the set."""

    def __init__(self, journal: list[RawRecord]) -> None:
        self._ends: dict[int, Signal] = {}
        self._sets: dict[int, list[tuple[Signal, bool]]] = {}
        for at, passing in passings(journal).items():
            signal = self._ends[at] = Signal()
            if passing.by is not None:
                self._sets.setdefault(passing.by, []).append((signal, passing.sure))

    def end(self, at: int) -> Signal:
        """Of the wait with that index."""
        return self._ends[at]

    def come(self, at: int, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """The walk has come to a record that may set a flag."""
        for signal, sure in self._sets.get(at, ()):
            signal.set(clock if sure else clocks.nothing, 0, 0, ready)
