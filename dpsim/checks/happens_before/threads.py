"""Hosts with several threads while a run is walked: one journal, walked in its order, and a clock for each thread.

What the threads of a rank put on a stream lies there in the order of the journal, whoever put it. What they know is
each thread's own:

* a thread knows what its starter knew when it started it;
* who joins a thread knows from then on all that it knew at its end;
* a wait for a flag that was let go, or found it set, and a query that found it set, know what the thread knew that set
  it: the first to do so since the flag was cleared, for a set of a set flag lets nobody go. A wait that was let go
  stays so, though the flag is cleared before its thread goes on.

    main   launch a on s   set ready   clear ready
    u1                     wait ready                learned   launch b on t          a is before b
    u2                                 launch c on t                                  nothing orders a and c

A stream that waits for a flag is told in `flags`.

A wait or query looks at its flag when it is awaited, which is behind its thread's last record before it returned.

The walk of a rank stands still as a whole where one of its threads learned something that it has not come to: the
others' records behind that were written later, so nothing before can depend on them.
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
    """A flag: what was known where it was set (None: it is clear), and who waits for that."""

    __slots__ = ("clock", "waiting")

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self.waiting: list[FlagLook] = []


class FlagLook:
    """A wait or query that has not returned, and what is known when it does; None: nothing."""

    __slots__ = ("clock", "flag", "waits")

    def __init__(self, flag: FlagState, waits: bool) -> None:
        self.flag = flag
        self.waits = waits
        self.clock: Clock | None = None

    def look(self) -> None:
        """Its thread may come to look now."""
        self.clock = self.flag.clock
        if self.waits and self.clock is None and self not in self.flag.waiting:
            self.flag.waiting.append(self)


class Joined:
    """A join that has not returned: of which thread, and which of those that had its name."""

    __slots__ = ("life",)

    def __init__(self, life: tuple[str, int]) -> None:
        self.life = life


class ThreadedHost(HostState):
    """A host with several threads. `clock`, `actor` and `position` are those of the thread whose record is walked."""

    def __init__(self, meeting: WalkState, rank: int, journal: list[RawRecord], actors: dict[str, int]) -> None:
        super().__init__(meeting, rank, journal, actors.get(MAIN, 0))
        self._actors = actors
        self._thread = MAIN
        self._known: dict[str, tuple[Clock, int]] = {}  # of the threads whose turn it is not: clock, position
        self._flags: dict[str, FlagState] = {}
        self._looks: dict[str, list[FlagLook]] = {}
        self._lives: dict[str, int] = {}  # how often a thread of that name was started
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
        _, position = self._known.get(name, (None, 0))  # one that had its name was the same actor
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
"""What a thread does at a record that concerns threads and flags."""
