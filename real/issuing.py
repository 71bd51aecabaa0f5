"""Makes each call of a rank with several host threads one step. On a real backend these threads run at the same time.

A call and its record are one step for the other threads of the rank. So the journal has the order in which calls
reached the streams, the communicators and the flags, and assigns its numbers in that order. A thread holds the lock
`ISSUING` during a plain call, and during the first half of an awaited call, which issues it. It never holds the lock
while it waits.

A *guarded* class derives from a class of the backend and wraps each method of the contract in this lock. Objects that
such a method returns are guarded, too, so a guarded rank returns only guarded objects:

    rank = guarded(ThreadedRank(...))
    rank.stream("main").record()            # a guarded CpuEvent, created under the lock

Only programs with `threaded = True` get such objects; others pay nothing.

A planted delay or a full socket may block a thread in a plain call. Then all threads of the rank wait at their next
call. XX: likewise, no thread can launch while another one is blocked in an alloc that waits for the device.

Rejected: a lock in the journal alone, from the record until the device has the op. Each error between the two would
need code to release it. Also rejected: to hold the lock from one call to the next, as turns in the simulation do. Two
threads that wait for each other by means of Python would never continue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from sys import _getframe
from types import FrameType, FunctionType, TracebackType
from typing import Any, Protocol, TypeVar

from dpsim.backend.journal.call_site import place_of
from dpsim.backend.journal.journal import Journal, RankJournal
from dpsim.backend.journal.misuse import CONTRACT
from dpsim.contract.ops import INJECTED_WHAT, KIND, MAIN, RawRecord
from real.pauses import Pauses
from real.waiting import Unfinished

T = TypeVar("T")

ISSUING = threading.RLock()
"""A thread holds it while it issues a call. One lock for the process, which runs one rank."""


class ThreadTurns(Protocol):
    """Called before a thread records a call, and before it gets an outcome: a `real.turns.OrderOfTurns`."""

    def come(self, point: tuple[str, str, int, bool]) -> None: ...
    def ends(self) -> None: ...


_guarded: dict[type, type] = {}
"""For each class: its guarded class, or itself if it is guarded or not part of the contract."""


def guarded(thing: T) -> T:
    """Returns the same object, guarded from now on if its class belongs to the contract."""
    kind = type(thing)
    wanted = _guarded.get(kind) or _guarded_class(kind)
    if wanted is not kind:
        thing.__class__ = wanted  # the same fields, other methods
    return thing


def _guarded_class(kind: type) -> type:
    calls: dict[str, Any] = {}
    for base in CONTRACT:
        if issubclass(kind, base):
            names = [name for name, one in vars(base).items() if isinstance(one, FunctionType) and name[0] != "_"]
            calls |= {name: (_block if name == "coalesced" else _step)(getattr(kind, name)) for name in names}
    if not calls:
        _guarded[kind] = kind
        return kind
    named = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made = _guarded[kind] = type(kind)(kind.__name__, (kind,), {**calls, **named})
    _guarded[made] = made
    return made


def _step(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        with ISSUING:
            given = method(*args, **named)
            return given if given is None else guarded(given)

    return call


def _block(method: Callable[..., AbstractContextManager[None]]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        with ISSUING:
            return GuardedBlock(method(*args, **named))

    return call


class GuardedBlock(AbstractContextManager[None]):
    """A block (`async with`) whose begin and end are each one step."""

    def __init__(self, block: AbstractContextManager[None]) -> None:
        self._inner = block

    def __enter__(self) -> None:
        with ISSUING:
            self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with ISSUING:
            return self._inner.__exit__(kind, error, trace)


_CALL = _step(len).__code__


def _outside(frame: FrameType) -> FrameType:
    """Returns the frame that called a guarded method, if this frame is that method's; else the frame itself."""
    back = frame.f_back
    return frame if frame.f_code is not _CALL or back is None else back


class OwnJournal(threading.local, Journal):
    """The front: a journal that is always that of the calling thread. It finds the program's line one frame further
    out.
    """

    def __init__(self, shared: RankJournal, turns: ThreadTurns | None = None, pauses: Pauses | None = None) -> None:
        """Creates the front for main, and for each thread that calls it without belonging to the rank."""
        super().__init__(shared, MAIN)
        self.turns = turns
        self.pauses = pauses
        self.enter(shared.thread())

    def enter(self, journal: Journal) -> None:
        """The calling thread uses that journal from now on."""
        turns, pauses = self.turns, self.pauses
        vars(self).update(vars(journal) | {"turns": turns, "pauses": pauses})
        self.looks = True  # a capture of another thread is checked before each op
        if turns is not None:
            self.turn = lambda site, ordinal: turns.come((self.thread, site, ordinal, False))
        elif pauses is not None:
            self.turn = lambda site, ordinal: pauses.release(ISSUING, self.thread, site, ordinal)

    def leave(self, journal: Journal) -> None:
        """The calling thread ends: that journal continues where it was."""
        vars(journal).update(vars(self))

    def note(self, kind: str, site: str, fields: tuple[Any, ...]) -> int:
        where = self._arrive(site, _getframe(2))
        delay = self._look(kind, site, where)
        self._sink((kind, self.step, self.thread, site, self.ordinal, where, *fields))
        return delay

    def starts(self) -> None:
        """A thread other than main begins its program, in its turn."""
        if self.turns is not None:
            self.turns.come((self.thread, "", self.visits("end"), False))

    def learned(self, site: str, ordinal: int, result: Any) -> None:
        if self.turns is not None:
            self.turns.come((self.thread, site, ordinal, True))
        super().learned(site, ordinal, result)

    def free(self, stream: str, site: str, ordinal: int, buffer: int) -> str:
        where = place_of(site, _outside(_getframe(2)))
        self._sink(("free", self.step, self.thread, site, ordinal, where, stream, buffer))
        return where

    def place(self, site: str) -> str:
        return place_of(site, _outside(_getframe(2)))

    def _arrive(self, site: str, frame: FrameType) -> str:
        return super()._arrive(site, _outside(frame))


def one_by_one(write: Callable[[RawRecord], None], over: threading.Event) -> Callable[[RawRecord], None]:
    """Returns a function that writes records of several threads into one file, one by one. The calling thread is main.
    Threads write outcomes without `ISSUING`. When the rank is over, only main writes: another thread gets Unfinished
    from any call. After the rank's death or hang no thread writes, in the short time until the process ends.
    """
    lock, main, dead = threading.Lock(), threading.get_ident(), False

    def write_one(record: RawRecord) -> None:
        nonlocal dead
        with lock:
            if dead or (over.is_set() and threading.get_ident() != main):
                raise Unfinished
            write(record)
            dead = record[KIND] == "injected" and record[INJECTED_WHAT] in ("die", "hang")

    return write_one
