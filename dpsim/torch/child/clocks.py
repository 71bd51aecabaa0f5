"""The clock of a rank: it shows the same times in each run of a schedule, because it does not read the real time.

The clock starts at a fixed time. It advances by the time that the rank sleeps, and by a microsecond at each read. Each
further read without a call between advances it more, so a loop that waits for a deadline ends. Each thread that dpsim
schedules has a clock, because two sleeps at the same time take the time of one. Who joins a thread, or takes a lock or
an item of it, learns its time.

Before each message the rank tells dpsim its time, and an answer brings the largest time of the ranks that the call
depends on (`dpsim.torch.times`):

    rank 0      sleep(0.3)      barrier                 # tells 0.3 s
    rank 1                      barrier     time()      # at least 0.3 s

The warm parent installs these functions before it imports torch, because a module may import a name from `time`. They
return the real time there. Modules of Python's library that imported a name earlier keep the real time. A proof names
the lines that read the clock, because dpsim tries one order of times.
"""

from __future__ import annotations

import copyreg
import datetime as dates
import os
import queue
import select
import selectors
import threading
import time
from collections.abc import Callable
from typing import Any

from dpsim.torch.child.unbound import Unbound

BEGIN = 1_700_000_000_000_000_000
"""What `time.time_ns()` returns at the start of each rank: nanoseconds since 1970."""
LOOK = 1_000
MOST = 1_000_000_000
OF_1970 = ("time", "CLOCK_REALTIME")
"""The function and the constant of `time` that count from 1970. All others count from the start of the rank."""
OF_WORK = ("process_time", "thread_time", "CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID")
"""The functions and constants of `time` that count the work of the processor. It does none while a rank waits."""


class RankClock:
    """A thread's clock, in ns since the rank's start. `told`: the time that dpsim knows. `worked`: the time of all
    threads without sleeps and waits; only of the main thread.
    """

    def __init__(self, passed: int = 0) -> None:
        self.passed = passed
        self.told = self.worked = 0
        self.by = LOOK
        self.begun = False

    def look(self) -> int:
        from dpsim.torch.child.outside import touched  # not at the top, because it imports torch

        touched("clock")
        self.passed += self.by
        CLOCK.worked += self.by
        self.by = min(self.by + self.by // 16 + 1, MOST)
        return self.passed

    def works(self) -> None:
        """Resets the step of the clock, because the rank made a call: it is in no loop that only reads the clock."""
        self.by = LOOK

    def meets(self, passed: int) -> None:
        """Sets the clock to the time of a rank that this one has waited for, unless its own time is later."""
        self.told = passed
        self.after(passed)

    def after(self, passed: int) -> None:
        """Sets the clock to the time of a thread of this rank that this one has waited for, unless its own is later."""
        self.passed = max(self.passed, passed)


CLOCK = RankClock()
"""The clock of the main thread, and of threads that dpsim does not schedule."""

_true_select, _true_wait = select.select, threading.Condition.wait

of_name: dict[str, RankClock] = {}
of_thread: dict[int, RankClock] = {}
"""The clocks of all other threads, by the name that dpsim knows and by Python's identifier."""


def clock() -> RankClock:
    """Returns the clock of the calling thread."""
    return of_thread.get(threading.get_ident(), CLOCK)


def install() -> None:
    """Replaces functions of `time` and `datetime`, also in forks. They read the real time until `begin`."""
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        for full, unit in ((name, 1e9), (f"{name}_ns", 1)):
            _replace(time, full, lambda unit=unit, name=name: _now(name, unit))
    for full, unit in (("clock_gettime", 1e9), ("clock_gettime_ns", 1)):
        names = {getattr(time, name): name for name in dir(time) if name.startswith("CLOCK_")}
        _replace(time, full, lambda clock, unit=unit, names=names: _now(names.get(clock, ""), unit))
    for name in ("gmtime", "localtime", "ctime"):
        _replace(time, name, _at_seconds(getattr(time, name)))
    for name, before in (("strftime", 1), ("asctime", 0)):
        _replace(time, name, _at_moment(getattr(time, name), before))
    _replace(os, "times", lambda: os.times_result((time.process_time(), 0.0, 0.0, 0.0, time.monotonic())))
    _replace(time, "sleep", _sleep)
    selectors.DefaultSelector = Selector  # type: ignore[misc]  # asyncio takes it
    for kind in (selectors.SelectSelector, selectors._PollLikeSelector):
        kind.select = _of_selector(kind.select)  # type: ignore[method-assign]
    _replace(select, "select", _select)
    threading._time = queue.time = time.monotonic  # type: ignore[attr-defined]  # they imported it before
    threading.Condition.wait = _waits  # type: ignore[method-assign]  # also of events and queues
    dates.datetime = Datetime  # type: ignore[misc]
    copyreg.pickle(_datetime, lambda moment: (Datetime, moment.__reduce__()[1]))  # type: ignore[arg-type,return-value]


def begin() -> None:
    """Starts the clock, because this process becomes a rank."""
    CLOCK.begun = True


def _replace(module: Any, name: str, function: Callable[..., Any]) -> None:
    """Replaces a builtin by `function`, which this process calls once it is a rank."""
    original = getattr(module, name)

    def called(*args: Any, **more: Any) -> Any:
        return (function if CLOCK.begun else original)(*args, **more)

    setattr(module, name, Unbound(called, original))


def _now(name: str, unit: float) -> Any:
    passed = clock().look()
    ns = CLOCK.worked if name in OF_WORK else passed + BEGIN * (name in OF_1970)
    return ns if unit == 1 else ns / unit


def _at_seconds(original: Any) -> Any:
    return lambda seconds=None, /: original(time.time() if seconds is None else seconds)


def _at_moment(original: Any, before: int) -> Any:
    """Returns `original`, whose argument after `before` others is the present local time if left out."""
    return lambda *args: original(*args, *[time.localtime()] * (len(args) == before))


def _waited(timeout: float | None, alone: bool, wait: Callable[[float | None], Any]) -> Any:
    """Returns what `wait` does within `timeout` seconds. If it waits in vain, the clock of the rank passes them.
    `alone`: only a thread of this process could end the wait, so a process of one thread sleeps in the simulation.
    """
    from dpsim.torch.child.pipe import at_home, held  # not at the top, because it imports this module

    if not CLOCK.begun or timeout is None or timeout <= 0 or not (held or at_home()):
        return wait(timeout)
    sleeps = alone and (threading.active_count() == 1 or bool(held))  # dpsim runs a thread that it holds in the sleep
    found = wait(0 if sleeps else timeout)
    if not found:
        time.sleep(timeout)
    return found


class Selector(selectors.DefaultSelector):
    """The selector of an event loop of asyncio. If nothing can come before its time-out, the rank sleeps until then."""

    def select(self, timeout: float | None = None) -> Any:
        alone = len(self.get_map()) <= 1  # the loop has a socket to wake itself
        return _waited(timeout, alone, super().select)


def _of_selector(select: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the `select` of a class whose selectors wait for processes and pipes, as `subprocess` does."""

    def selects(self: selectors.BaseSelector, timeout: float | None = None) -> Any:
        return _waited(timeout, not self.get_map(), lambda seconds: select(self, seconds))

    return selects


def _select(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /) -> Any:
    def wait(seconds: float | None) -> Any:
        found = _true_select(rlist, wlist, xlist, seconds)
        return found if any(found) else None

    return _waited(timeout, not (rlist or wlist or xlist), wait) or ([], [], [])


def _waits(self: threading.Condition, timeout: float | None = None) -> bool:
    from dpsim.torch.child.pipe import held  # not at the top, because it imports this module

    if held:  # its lock is one of the simulation
        return _true_wait(self, timeout)
    return bool(_waited(timeout, True, lambda seconds: _true_wait(self, seconds)))


def _sleep(seconds: float, /) -> None:
    from dpsim.torch.child.frames import site
    from dpsim.torch.child.pipe import ask

    ns = max(int(seconds * 1e9), 0)
    clock().passed += ns
    ask(["sleep", ns, site("sleep")])


class _Like(type):
    """Makes `isinstance` accept datetimes that C code created with the original class."""

    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, _datetime) if cls is Datetime else super().__instancecheck__(one)


_datetime = dates.datetime


class Datetime(_datetime, metaclass=_Like):
    """`datetime.datetime`, with `now`, `utcnow` and `today` by the clock of the rank."""

    @classmethod
    def now(cls, tz: dates.tzinfo | None = None) -> Any:
        return _datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return _datetime.fromtimestamp(time.time(), dates.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


Datetime.__name__ = Datetime.__qualname__ = "datetime"
Datetime.__module__ = "datetime"
