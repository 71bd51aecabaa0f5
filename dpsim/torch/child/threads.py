"""Lets dpsim schedule the threads of a rank's process: each thread of Python is a host thread of the rank.

    hold()          # from now on exactly one thread of this process runs: the one that dpsim answered last

dpsim does this only for programs in which a second thread makes calls (`dpsim.torch.found`). A thread runs until it
sends a message that needs an answer. Then the simulation chooses the next thread, as for host threads of any program:

    main    starts u1    all_reduce on g1            joins u1
    u1                                 all_reduce on g2          # g2 before g1, or g1 before g2

The sender reads the next answer. If it is for another thread, the reader hands it over and blocks. So exactly one
thread runs at a time, and a schedule gives the same run each time. The locks and queues are those of
`dpsim.torch.child`, so dpsim sees who waits for whom.
"""

from __future__ import annotations

import _thread
import itertools
import os
import re
import sys
import threading
from asyncio import base_events
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

from dpsim.torch.child import outside, pipe
from dpsim.torch.child.clocks import CLOCK, RankClock, clock, of_name, of_thread
from dpsim.torch.child.frames import begin, here, is_users, raised_at, site
from dpsim.torch.child.unbound import Unbound
from dpsim.torch.child.uncovered import NotCovered, refused

_STARTERS = ("_start_new_thread", "_start_joinable_thread")
"""The functions by which `threading` starts a thread. Python 3.12 and earlier have the first."""


class Speaker:
    """A thread that may send messages. `stands`: how often it waited. `clock`: begins with that of its maker."""

    def __init__(self, name: str, its: RankClock) -> None:
        self.name = name
        self.clock = of_name[name] = its
        self.ended = False
        self.stands = 0
        self.joiners: list[Speaker] = []
        self._mine = pipe.true_lock()
        self._mine.acquire()
        self._frame: pipe.Frame = ([], [])

    def give(self, frame: pipe.Frame) -> None:
        """Hands an answer to this thread, which continues. The caller must block next."""
        self._frame = frame
        self._mine.release()

    def heard(self) -> pipe.Frame:
        """Returns the next answer to this thread. Hands answers to other threads over."""
        frame = pipe.read()
        if frame[0][1] == self.name:
            return frame
        return self._handed(frame)

    def _handed(self, frame: pipe.Frame) -> pipe.Frame:
        _named[frame[0][1]].give(frame)
        return self.begin()

    def begin(self) -> pipe.Frame:
        """Blocks until another thread hands an answer to this one, and returns the answer."""
        self._mine.acquire()
        return self._frame

    def end(self) -> None:
        """Reports that the function of this thread has returned, and hands the next answer to its thread."""
        self.ended = True
        while self.joiners:
            let(self.joiners.pop(0))
        pipe.say(["ended"])
        frame = pipe.read()
        _named[frame[0][1]].give(frame)


_numbers = itertools.count()
_named: dict[str, Speaker] = {}
_speaks: dict[int, Speaker] = {}


def me() -> Speaker | None:
    """Returns the Speaker of the calling thread, or None if Python did not start the thread."""
    return _speaks.get(threading.get_ident())


def stand(what: str, among: list[Speaker], timeout: float | None) -> bool:
    """Blocks the calling thread until another one wakes it; returns whether one did within `timeout` seconds. `what`:
    the lock or queue, for the report. `among`: the waiters of that lock.
    """
    own = me()
    if own is None:
        raise pipe.foreign()
    among.append(own)
    ns = -1 if timeout is None or timeout < 0 else int(timeout * 1e9)
    own.stands += 1
    let_go = bool(pipe.ask(["stand", f"{what}.{own.name}.{own.stands}", ns, site("waits")])[0])
    if own in among:
        among.remove(own)
        own.clock.passed += 0 if let_go else ns
        return let_go
    return True


def let(other: Speaker) -> None:
    """Wakes a waiting thread."""
    other.clock.after(clock().passed)
    pipe.ask(["let", other.name, site("lets")])


def choose(what: str, changes: bool = True) -> None:
    """Tells dpsim that this thread uses an object. If a use changes it, the explorer tries both orders."""
    pipe.ask(["choose", what, changes, site(what.partition(".")[0])])


def hold() -> None:
    """Lets dpsim schedule the threads of this process from now on. Only the main thread may exist."""
    from dpsim.torch.child import queues

    main = Speaker("main", CLOCK)
    _named["main"] = _speaks[threading.get_ident()] = main
    pipe.held.append(_Held())
    _wrap_starters(_starting)
    _thread.start_new_thread = Unbound(_starting(_thread.start_new_thread), _thread.start_new_thread)
    threading.excepthook = Unbound(_raised, threading.excepthook)
    _join_by_asking()
    queues.install()
    base_events.BaseEventLoop.run_in_executor = refused(  # type: ignore[method-assign,assignment]
        "asyncio.to_thread or run_in_executor in a program whose threads make calls"
    )
    os.fork = Unbound(refused("a fork in a program whose threads make calls"), os.fork)


def watch() -> None:
    """Reports to dpsim when this process starts a thread. dpsim does not schedule the threads."""
    _wrap_starters(_saying)


def _wrap_starters(wrap: Callable[[Any], Any]) -> None:
    for name in _STARTERS:
        original = getattr(threading, name, None)
        if original is not None:
            setattr(threading, name, Unbound(wrap(original), original))


def _saying(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(*args: Any, **more: Any) -> Any:
        if pipe.at_home():
            pipe.say(["threads"])
            pipe.flush()  # dpsim may end this run here, and its threads may wait for each other
            outside.touched_through("thread")
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
        speaker = Speaker(_word(thread.name if thread is not None else "thread"), RankClock(clock().passed))
        _named[speaker.name] = speaker
        if thread is not None:
            vars(thread)["_speaker"] = speaker
            if _is_users(thread):
                vars(thread)["run"] = _in_any_order(thread.run)
        outside.touched_through("thread")
        begun = here()
        daemon = thread is None or thread.daemon
        pipe.ask(["thread", speaker.name, daemon, site("start")])

        def run(*its: Any, **their: Any) -> None:
            _speaks[threading.get_ident()] = speaker
            of_thread[threading.get_ident()] = speaker.clock
            speaker.begin()
            begin(begun)
            try:
                function(*its, **their)
            finally:
                choose(f"end.{speaker.name}")
                speaker.end()
                del _speaks[threading.get_ident()], of_thread[threading.get_ident()]

        return original(run, *args, **more)

    return start


def _is_users(thread: threading.Thread) -> bool:
    """Returns whether a thread runs code of the user, or a builtin. A worker of a pool waits for a queue first."""
    run: Any = getattr(thread, "_target", None) if type(thread).run is threading.Thread.run else thread.run
    found = getattr(run, "__func__", getattr(run, "func", run))  # of a method, or of a partial function
    code: CodeType | None = getattr(found, "__code__", None)
    return code is None or is_users(code)


def _in_any_order(run: Callable[[], None]) -> Callable[[], None]:
    """Lets the explorer try each order in which threads begin, because a thread may share objects without a lock."""

    def runs() -> None:
        choose("threads")
        run()

    return runs


def join_rest() -> None:
    """Waits for threads that are no daemons, as Python does at the end in C code, which dpsim cannot see."""
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
            clock().after(other.clock.passed)
        join(self)

    def is_alive(self: threading.Thread) -> bool:
        other: Speaker | None = getattr(self, "_speaker", None)
        if other is not None and is_users(sys._getframe(1).f_code):
            choose(f"end.{other.name}", changes=False)
        if other is None or not other.ended:
            return alive(self)
        clock().after(other.clock.passed)
        return False

    def by_number(self: threading.Thread) -> int:
        """Executors have sets of threads, whose order has to be the same in each run."""
        return int(vars(self).setdefault("_number", next(_numbers)))

    threading.Thread.__hash__ = by_number  # type: ignore[method-assign,assignment]
    threading.Thread.join = joins  # type: ignore[method-assign]
    threading.Thread.is_alive = is_alive  # type: ignore[method-assign]


def _raised(args: Any) -> None:
    """Reports an exception that ended a thread. A NotCovered ends the run; any other exception ends only the thread."""
    trace: TracebackType | None = args.exc_traceback
    chain = raised_at(trace)
    if isinstance(args.exc_value, NotCovered):
        pipe.ask(["uncovered", str(args.exc_value), chain])
    elif not issubclass(args.exc_type, SystemExit):
        pipe.ask(["lost", f"{args.exc_type.__name__}", chain])


def _word(name: str) -> str:
    word = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("_") or "thread"
    found, number = word, 1
    while found in _named:
        number += 1
        found = f"{word}#{number}"
    return found
