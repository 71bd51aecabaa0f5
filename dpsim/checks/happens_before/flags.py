"""Flags: determines from a rank's journal which set of a flag releases a stream that waits for the flag.

A stream reads the flag when it reaches its wait, and no record shows that time. Normally, the flag is set already, or
the next set releases the stream. But a host thread may clear the flag again. If no host had observed by then that the
stream was past its wait, the stream may have missed that set. Then a later set may have released it:

    stream waits for f    u1: set f    main: clear f    u2: set f                                    either of the two
    stream waits for f    u1: set f    main reads a later result    main: clear f    u2: set f       the first

If one thread makes all sets, the walk assumes the first one: what happened before the first set happened before the
later ones as well. If several threads make them, the walk assumes no order at all.
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
    """How a wait of a stream for a flag may end.

    `by` is the index of the first set that may release it, or None. `sure`: what happened before that set certainly
    happened before the end of the wait. `missed`: a thread cleared the flag afterwards, perhaps before the stream read
    it, and no thread set it again.
    """

    by: int | None
    sure: bool = True
    missed: bool = False


def passings(journal: list[RawRecord]) -> dict[int, Passing]:
    """Returns how each wait of a stream may end, by the index of the wait."""
    writes: dict[str, list[int]] = {}  # by flag: the sets and clears that changed it, alternating
    waits: dict[int, int | None] = {}  # with the index at which a host first observed its end
    under_way: dict[str, list[int]] = {}
    marks: dict[int, tuple[str, int]] = {}
    queried: dict[tuple[Any, ...], tuple[str, int]] = {}
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
            queried[raw[ADDRESS]] = raw[STREAM], at
        elif kind == "ask" and raw[EVENT] in marks:
            queried[raw[ADDRESS]] = marks[raw[EVENT]]
        elif kind == "learned" and raw[ADDRESS] in queried and raw[LEARNED_OUTCOME] is not False:
            stream, point = queried.pop(raw[ADDRESS])
            for wait in under_way.get(stream, ()):
                if wait < point and waits[wait] is None:
                    waits[wait] = at
    return {at: _passing(journal, writes.get(journal[at][FLAG_AWAITED], []), at, end) for at, end in waits.items()}


def _passing(journal: list[RawRecord], writes: list[int], at: int, end: int | None) -> Passing:
    """Returns how the wait at index `at` may end. `end` is the index at which a host observed its end, or None."""
    before = [write for write in writes if write < at]
    later = [write for write in writes if write > at and (end is None or write < end)]
    if len(before) % 2:
        later.insert(0, before[-1])
    if not later:
        return Passing(None)
    sure = len({journal[one][THREAD] for one in later[::2]}) == 1
    return Passing(later[0], sure, len(later) % 2 == 0 and end is None)


class FlagSignals:
    """The signals that end the waits of a rank's streams for flags. The walk fires each one at the set of the flag."""

    def __init__(self, journal: list[RawRecord]) -> None:
        self._ends: dict[int, Signal] = {}
        self._sets: dict[int, list[tuple[Signal, bool]]] = {}
        for at, passing in passings(journal).items():
            signal = self._ends[at] = Signal()
            if passing.by is not None:
                self._sets.setdefault(passing.by, []).append((signal, passing.sure))

    def end(self, at: int) -> Signal:
        """Returns the signal of the wait with that index."""
        return self._ends[at]

    def come(self, at: int, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """Fires the signals of waits that the record at index `at` releases."""
        for signal, sure in self._sets.get(at, ()):
            signal.set(clock if sure else clocks.nothing, 0, 0, ready)
