"""Threads: a host with several threads during the walk (the pass over all journals that rebuilds happens-before).

Ops on one stream execute in the order of the journal, whichever thread issued them. But the journal's order does not
order the threads themselves, so each thread has a clock:

* A new thread starts with the clock of the thread that started it.
* A thread that joins another one adds the clock of its end.
* A wait for a flag adds the clock of the thread that set the flag. So does a query that returned True. If threads set a
  flag several times, the first set after a clear counts. A released wait stays released, even if a thread clears the
  flag before the waiting thread continues.

    main   launch a on s   set ready   clear ready
    u1                     wait ready                learned   launch b on t          a is before b
    u2                                 launch c on t                                  nothing orders a and c

`flags` handles streams that wait for a flag.

A wait or query reads the flag when the thread awaits it. This is after the thread's last record before the result. If a
thread awaited an op that the walk has not reached, the walk stops the whole rank. This is safe, because the host wrote
the later records of all its threads after that result.
"""

from __future__ import annotations

from typing import Any

from dpsim.checks.happens_before.clocks import Clock
from dpsim.checks.happens_before.flags import FlagSignals
from dpsim.checks.happens_before.hosts import ISSUE, HostState
from dpsim.checks.happens_before.mailboxes import Posts
from dpsim.checks.happens_before.meeting import WalkState
from dpsim.checks.happens_before.streams import StreamState
from dpsim.contract.ops import (
    ADDRESS,
    FLAG,
    FLAG_HOW,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    STREAM,
    THREAD,
    THREAD_HOW,
    THREAD_NAME,
    RawRecord,
)


class FlagState:
    """A flag: the clock of its set (None while it is clear), and the waits for it."""

    __slots__ = ("clock", "waiting")

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self.waiting: list[FlagLook] = []


class FlagLook:
    """A wait for a flag or a query of it that has not returned. `clock` is what it adds at its return, or None."""

    __slots__ = ("clock", "flag", "waits")

    def __init__(self, flag: FlagState, waits: bool) -> None:
        self.flag = flag
        self.waits = waits
        self.clock: Clock | None = None

    def look(self) -> None:
        """Reads the flag, because the thread may have awaited the call by now."""
        self.clock = self.flag.clock
        if self.waits and self.clock is None and self not in self.flag.waiting:
            self.flag.waiting.append(self)


class Joined:
    """A join that has not returned: the name of the thread, and the number of threads of this name so far."""

    __slots__ = ("life",)

    def __init__(self, life: tuple[str, int]) -> None:
        self.life = life


class ThreadedHost(HostState):
    """A host with several threads. `clock`, `actor` and `position` belong to the thread of the present record."""

    def __init__(self, meeting: WalkState, rank: int, journal: list[RawRecord], actors: dict[str, int]) -> None:
        super().__init__(meeting, rank, journal, actors.get(MAIN, 0))
        self._actors = actors
        self._thread = MAIN
        self._known: dict[str, tuple[Clock, int]] = {}  # clock and position of each other thread
        self._flags: dict[str, FlagState] = {}
        self._looks: dict[str, list[FlagLook]] = {}
        self._lives: dict[str, int] = {}  # the number of threads of that name so far
        self._ends: dict[tuple[str, int], Clock] = {}
        self._signals = FlagSignals(journal)

    def go(self, posts: Posts = "wait") -> None:
        journal = self.journal
        while self.at < len(journal):
            at, raw = self.at, journal[self.at]
            kind, thread = raw[KIND], raw[THREAD]
            if thread != self._thread:
                self._enter(thread)
            if kind == "launch":
                self.streams[raw[STREAM]].put(StreamState.launch, at, raw, self.clock)
            elif kind == "learned":
                source = self.pending.get(raw[ADDRESS])
                if source is not None:
                    if not self._learn(source, raw[LEARNED_OUTCOME], posts):
                        return
                    del self.pending[raw[ADDRESS]]
            elif kind in THREADED:
                THREADED[kind](self, raw)
            elif kind in ISSUE:
                ISSUE[kind](self, at, raw)
            for look in self._looks.get(thread, ()):
                look.look()
            self.at += 1
            posts = "wait"
        whole = self.clock
        for known, _ in self._known.values():
            whole = self.meeting.clocks.join(whole, known)
        self._end_of_journal(whole)

    def _enter(self, thread: str) -> None:
        self._known[self._thread] = self.clock, self.position
        nothing = self.meeting.clocks.nothing, 0
        self.clock, self.position = self._known.get(thread, nothing)
        self._thread, self.actor = thread, self._actors.get(thread, 0)

    def _flag_wait(self, raw: RawRecord) -> None:
        self.streams[raw[STREAM]].put(StreamState.wait, self.at, self._signals.end(self.at), self.clock)

    def _flag(self, raw: RawRecord) -> None:
        self._signals.come(self.at, self.clock, self.meeting.clocks, self.meeting.ready)
        flag, how = self._flags.setdefault(raw[FLAG], FlagState()), raw[FLAG_HOW]
        if how == "clear":
            flag.clock = None
        elif how != "set":
            look = self.pending[raw[ADDRESS]] = FlagLook(flag, how == "wait")
            self._looks.setdefault(self._thread, []).append(look)
        elif flag.clock is None:
            flag.clock = self.clock
            waiting, flag.waiting = flag.waiting, []
            for look in waiting:
                look.clock = self.clock

    def _about_thread(self, raw: RawRecord) -> None:
        name = raw[THREAD_NAME]
        if raw[THREAD_HOW] == "join":
            self.pending[raw[ADDRESS]] = Joined((name, self._lives.get(name, 0)))
            return
        self._lives[name] = self._lives.get(name, 0) + 1
        _, position = self._known.get(name, (None, 0))  # an earlier thread of this name is the same actor
        self._known[name] = self.clock, position

    def _ended(self, _: RawRecord) -> None:
        self._ends[self._thread, self._lives.get(self._thread, 0)] = self.clock

    def _learn(self, source: Any, outcome: Any, posts: Posts) -> bool:
        known: Clock | None
        if type(source) is FlagLook:
            self._looks[self._thread].remove(source)
            known = source.clock if outcome is not False else None
        elif type(source) is Joined:
            known = self._ends.get(source.life)
        else:
            return super()._learn(source, outcome, posts)
        if known is not None:
            self.clock = self.meeting.clocks.join(self.clock, known)
        return True


THREADED = {
    "flag": ThreadedHost._flag,
    "flag_wait": ThreadedHost._flag_wait,
    "thread": ThreadedHost._about_thread,
    "ended": ThreadedHost._ended,
}
"""The function that handles a record about threads or flags, by kind."""
