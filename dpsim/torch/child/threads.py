"""Threads of a rank: those that Python starts are host threads of the rank in the simulation.

    hold()          # from now on one thread of this process runs at a time: the one that dpsim answered last

Only a program whose second thread makes calls is run so (`dpsim.torch.found`). A thread goes on until it asks dpsim.
Then the simulation chooses which thread goes on, as it does for host threads of any program:

    main    starts u1    all_reduce on g1            joins u1
    u1                                 all_reduce on g2          # g2 before g1, or g1 before g2

The thread that asked reads the next answer. An answer for another thread goes to that one, which reads on from then on.
So exactly one thread runs, and a schedule gives the same run each time. Locks and queues are those of
`dpsim.torch.child.locks` and `queues`, since a thread that waits for another one has to say so.
"""

from __future__ import annotations

import _thread
import itertools
import re
import threading
from asyncio import base_events
from collections.abc import Callable
from types import TracebackType
from typing import Any

from dpsim.torch.child import pipe
from dpsim.torch.child.frames import begin, here, raised_at, site
from dpsim.torch.child.uncovered import NotCovered, refused

_STARTERS = ("_start_new_thread", "_start_joinable_thread")
"""How `threading` starts a thread: the first up to Python 3.12."""


class Speaker:
    """A thread that may speak to dpsim. `stands`: how often it has stood for another thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = False
        self.stands = 0
        self.joiners: list[Speaker] = []
        self._mine = pipe.true_lock()
        self._mine.acquire()
        self._frame: pipe.Frame = ([], [])

    def give(self, frame: pipe.Frame) -> None:
        """It goes on with this answer, and the thread that calls does not."""
        self._frame = frame
        self._mine.release()

    def heard(self) -> pipe.Frame:
        """Its next answer."""
        frame = pipe.read()
        if frame[0][1] == self.name:
            return frame
        return self._handed(frame)

    def _handed(self, frame: pipe.Frame) -> pipe.Frame:
        _named[frame[0][1]].give(frame)
        return self.begin()

    def begin(self) -> pipe.Frame:
        """Stand until another thread hands over."""
        self._mine.acquire()
        return self._frame

    def end(self) -> None:
        """Its program has ended, and the next one goes on."""
        self.ended = True
        while self.joiners:
            let(self.joiners.pop(0))
        pipe.say(["ended"])
        frame = pipe.read()
        _named[frame[0][1]].give(frame)


_numbers = itertools.count()
_named: dict[str, Speaker] = {}
_speaks: dict[int, Speaker] = {}
"""By the number of the thread."""


def me() -> Speaker | None:
    """The thread that runs; None for one that Python did not start."""
    return _speaks.get(threading.get_ident())


def stand(what: str, among: list[Speaker], timeout: float | None) -> bool:
    """Stand for a thing until another thread lets this one go on. The answer: whether one did in time."""
    own = me()
    if own is None:
        raise pipe.foreign()
    among.append(own)
    ns = -1 if timeout is None or timeout < 0 else int(timeout * 1e9)
    own.stands += 1
    let_go = bool(pipe.ask(["stand", f"{what}.{own.name}.{own.stands}", ns, site("waits")])[0])
    if own in among:
        among.remove(own)
        return let_go
    return True


def let(other: Speaker) -> None:
    """Let a thread go on that stands."""
    pipe.ask(["let", other.name, site("lets")])


def choose(what: str, changes: bool = True) -> None:
    """Which thread is the first to use a thing of this name is a choice, if one of two uses changes it."""
    pipe.ask(["choose", what, changes, site(what.partition(".")[0])])


def hold() -> None:
    """Hold the threads of this process, which has one so far."""
    from dpsim.torch.child import queues

    main = Speaker("main")
    _named["main"] = _speaks[threading.get_ident()] = main
    pipe.held.append(_Held())
    for name in _STARTERS:
        if hasattr(threading, name):
            setattr(threading, name, _starting(getattr(threading, name)))
    _thread.start_new_thread = _starting(_thread.start_new_thread)
    threading.excepthook = _raised
    _join_by_asking()
    queues.install()
    base_events.BaseEventLoop.run_in_executor = refused(  # type: ignore[method-assign,assignment]
        "asyncio.to_thread or run_in_executor in a program whose threads make calls"
    )


def watch() -> None:
    """Say that this process has threads. They are not held."""
    for name in _STARTERS:
        if hasattr(threading, name):
            setattr(threading, name, _saying(getattr(threading, name)))


def _saying(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(*args: Any, **more: Any) -> Any:
        if pipe.at_home():
            pipe.say(["threads"])
        return original(*args, **more)

    return start


class _Held(pipe.Hold):
    def heard(self) -> pipe.Frame:
        own = me()
        if own is None:
            raise pipe.foreign()
        return own.heard()

    def knows(self) -> bool:
        return me() is not None


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        thread = getattr(function, "__self__", None)
        if not isinstance(thread, threading.Thread):
            thread = None
        speaker = Speaker(_word(thread.name if thread is not None else "thread"))
        _named[speaker.name] = speaker
        if thread is not None:
            vars(thread)["_speaker"] = speaker
        begun = here()
        daemon = thread is None or thread.daemon
        pipe.ask(["thread", speaker.name, daemon, site("start")])

        def run(*its: Any, **their: Any) -> None:
            _speaks[threading.get_ident()] = speaker
            speaker.begin()
            begin(begun)
            try:
                function(*its, **their)
            finally:
                speaker.end()
                del _speaks[threading.get_ident()]

        return original(run, *args, **more)

    return start


def join_rest() -> None:
    """Wait for threads that are no daemons, as Python does at the end of a process. It would wait in C."""
    while rest := [one for one in threading.enumerate() if not one.daemon and _runs_beside(one)]:
        rest[0].join()


def _runs_beside(thread: threading.Thread) -> bool:
    speaker: Speaker | None = getattr(thread, "_speaker", None)
    return speaker is not None and not speaker.ended


def _join_by_asking() -> None:
    join, alive = threading.Thread.join, threading.Thread.is_alive

    def joins(self: threading.Thread, timeout: float | None = None) -> None:
        other: Speaker | None = getattr(self, "_speaker", None)
        if other is not None and other is not me() and not (other.ended and timeout is not None):
            if timeout is None:
                pipe.ask(["joins", other.name, site("join")])
            elif not stand(f"end_of_{other.name}", other.joiners, max(timeout, 0)):
                return
        join(self)

    def is_alive(self: threading.Thread) -> bool:
        other: Speaker | None = getattr(self, "_speaker", None)
        return False if other is not None and other.ended else alive(self)

    def by_number(self: threading.Thread) -> int:
        """A set of threads, as an executor has, is in the same order in each run."""
        return int(vars(self).setdefault("_number", next(_numbers)))

    threading.Thread.__hash__ = by_number  # type: ignore[method-assign,assignment]
    threading.Thread.join = joins  # type: ignore[method-assign]
    threading.Thread.is_alive = is_alive  # type: ignore[method-assign]


def _raised(args: Any) -> None:
    """What a thread raised ends that thread alone, as in Python; a call that is not covered ends the run."""
    trace: TracebackType | None = args.exc_traceback
    chain = raised_at(trace)
    if isinstance(args.exc_value, NotCovered):
        pipe.ask(["uncovered", str(args.exc_value), chain])
    elif not issubclass(args.exc_type, SystemExit):
        pipe.ask(["lost", f"{args.exc_type.__name__}", chain])


def _word(name: str) -> str:
    """A name that no thread of this rank has had."""
    word = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("_") or "thread"
    found, number = word, 1
    while found in _named:
        number += 1
        found = f"{word}#{number}"
    return found
