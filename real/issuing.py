"""One call at a time: the objects of the contract, for a rank whose host threads run at the same time.

A call of the contract and its record are one step with respect to the other threads of the rank. So the journal has the
order in which calls reached the streams, the communicators and the flags, and gives out its numbers in that order. A
thread holds `ISSUING` for a plain call, and for the first half of an awaited one, which issues it. It never holds it
while it waits.

A *guarded* class derives from a backend's own and has each method of the contract with the lock around it. Whatever
such a method gives is guarded too, so a rank that is guarded hands out nothing else:

    rank = guarded(ThreadedRank(...))
    rank.stream("main").record()            # a guarded CpuEvent, made under the lock

Only programs that say `threaded = True` have such objects: others pay nothing.

An injected delay or a full socket may hold up a thread in a plain call. Then all threads of the rank wait at their next
call. XX: nor can one launch while another is stuck in an alloc that waits for the device.

Rejected: a lock in the journal alone, taken when an op is written and given back when the device has it. Each error
between the two would need a way out. Also rejected: the lock of a rank that is held from one call to the next, as the
simulation's turns have it. Two threads that wait for one another by Python's own means would never go on.
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
from real.waiting import Unfinished

T = TypeVar("T")

ISSUING = threading.RLock()
"""Held by a thread while it issues. One for the process, which has one rank."""


class ThreadTurns(Protocol):
    """Where the front stands before a call is written, and before its outcome: a `real.turns.OrderOfTurns`."""

    def come(self, point: tuple[str, str, int, bool]) -> None: ...
    def ends(self) -> None: ...


_guarded: dict[type, type] = {}
"""Of each class that was seen: the guarded one; itself, if it is that or nothing of the contract."""


def guarded(thing: T) -> T:
    """The same object, guarded from now on if it is of the contract."""
    kind = type(thing)
    wanted = _guarded.get(kind) or _guarded_class(kind)
    if wanted is not kind:
        thing.__class__ = wanted  # the same fields, and other methods
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
    """A block whose begin and whose end are each one step."""

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
    """The frame that called a guarded method, if this is that method's; else the frame itself."""
    back = frame.f_back
    return frame if frame.f_code is not _CALL or back is None else back


class OwnJournal(threading.local, Journal):
    """The front: a journal that is always that of the thread which calls. It finds the program's line one frame further
    out.
    """

    def __init__(self, shared: RankJournal, turns: ThreadTurns | None = None) -> None:
        """For main; and for each thread that calls it and is none of the rank's."""
        super().__init__(shared, MAIN)
        self.turns = turns
        self.enter(shared.thread())

    def enter(self, journal: Journal) -> None:
        """The calling thread goes on where that journal ends."""
        turns = self.turns
        vars(self).update(vars(journal) | {"turns": turns})
        self.looks = True  # what another thread captures is asked before each op
        if turns is not None:
            self.turn = lambda site, ordinal: turns.come((self.thread, site, ordinal, False))

    def leave(self, journal: Journal) -> None:
        """The calling thread ends: that journal goes on where it was."""
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
    """The same for several threads, of which the one that calls this is main. What a thread learned it writes without
    `ISSUING`. When the rank is over main alone writes: another thread gets Unfinished with whatever it does. After its
    death, or when it hangs, no thread writes, in the moment that is left until the process is gone.
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
