"""The clock of a rank: it shows the same times in each run of a schedule, because it does not read the real time.

The clock starts at a fixed time. It advances by a microsecond when the rank reads it, and by the time that the rank
sleeps. If the rank reads it repeatedly without a call between, each read advances it more than the last. So a loop that
waits for a deadline ends. `time.sleep` sleeps in the simulation. `datetime` reads this clock too.

The warm parent installs these functions before it imports torch, so a module that imports a name from `time` or
`datetime` imports these functions. In the warm parent they return the real time. Modules of Python's library that
imported a name earlier keep the real time.
"""

from __future__ import annotations

import copyreg
import datetime as dates
import time
from collections.abc import Callable
from typing import Any

BEGIN = 1_700_000_000_000_000_000
"""What `time.time_ns()` returns at the start of each rank: nanoseconds since 1970."""
LOOK = 1_000
MOST = 1_000_000_000


class RankClock:
    """The clock of this rank, in nanoseconds since its start. `begun`: this process has become a rank."""

    def __init__(self) -> None:
        self.passed = 0
        self.by = LOOK
        self.begun = False

    def look(self) -> int:
        self.passed += self.by
        self.by = min(self.by + self.by // 16 + 1, MOST)
        return self.passed

    def works(self) -> None:
        """Resets the step of the clock, because the rank made a call: it is in no loop that only reads the clock."""
        self.by = LOOK


CLOCK = RankClock()


def install() -> None:
    """Replaces the functions of `time` and `datetime` in this process and its forks. They read the real time until
    `begin`.
    """
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        start = BEGIN if name == "time" else 0
        for full, unit in ((name, 1e9), (f"{name}_ns", 1)):
            setattr(time, full, _reading(getattr(time, full), start, unit))
    time.sleep = _sleep  # type: ignore[assignment]
    for name in ("gmtime", "localtime"):
        setattr(time, name, _given(getattr(time, name)))
    dates.datetime = Datetime  # type: ignore[misc]
    copyreg.pickle(_datetime, lambda moment: (Datetime, moment.__reduce__()[1]))  # type: ignore[arg-type,return-value]


def begin() -> None:
    """Starts the clock, because this process becomes a rank."""
    CLOCK.begun = True


def _reading(true: Callable[[], Any], start: int, unit: float) -> Callable[[], Any]:
    def read() -> Any:
        if not CLOCK.begun:
            return true()
        ns = start + CLOCK.look()
        return ns if unit == 1 else ns / unit

    return read


def _given(original: Any) -> Any:
    return lambda seconds=None: original(time.time() if seconds is None else seconds)


_true_sleep = time.sleep


def _sleep(seconds: float, /) -> None:
    if not CLOCK.begun:
        _true_sleep(seconds)
        return
    from dpsim.torch.child.frames import site  # not at the top, because it imports torch
    from dpsim.torch.child.pipe import ask

    ns = max(int(seconds * 1e9), 0)
    CLOCK.passed += ns
    ask(["sleep", ns, site("sleep")])


class _Like(type):
    """Makes `isinstance` accept datetimes that C code created with the original class."""

    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, _datetime)


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
