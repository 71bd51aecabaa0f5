"""Time, as the simulation gives it: the same in each run of a schedule.

The clock of a rank starts at a fixed moment. It advances by a microsecond when the rank reads it, and by the time that
the rank sleeps. If the rank reads it repeatedly and makes no call, each read advances it more. So a loop until a
deadline ends, and two reads differ. `time.sleep` is a sleep of the simulation. `datetime` reads this clock too.

The warm parent process installs these functions before it imports torch. So modules that import a name from `time` or
`datetime` get these functions. In the parent they return the real time. Modules of Python's own library that imported
such a name earlier keep the real time.
"""

from __future__ import annotations

import copyreg
import datetime as dates
import time
from collections.abc import Callable
from typing import Any

BEGIN = 1_700_000_000_000_000_000
"""Nanoseconds since 1970 at which each rank begins."""
LOOK = 1_000
MOST = 1_000_000_000


class RankClock:
    """The clock of this rank, in nanoseconds since its beginning. `begun`: this process is a rank."""

    def __init__(self) -> None:
        self.passed = 0
        self.by = LOOK
        self.begun = False

    def look(self) -> int:
        self.passed += self.by
        self.by = min(self.by + self.by // 16 + 1, MOST)
        return self.passed

    def works(self) -> None:
        """The rank made a call: it does not only look at its clock."""
        self.by = LOOK


CLOCK = RankClock()


def install() -> None:
    """Give this clock to the process, and to those that it forks. It shows the true time until `begin`."""
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
    """From now on this process is a rank."""
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
    from dpsim.torch.child.frames import site  # it imports torch
    from dpsim.torch.child.pipe import ask

    ns = max(int(seconds * 1e9), 0)
    CLOCK.passed += ns
    ask(["sleep", ns, site("sleep")])


class _Like(type):
    """Moments that C made are of this class too."""

    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, _datetime)


_datetime = dates.datetime


class Datetime(_datetime, metaclass=_Like):
    """`datetime.datetime`, which reads the clock of the rank."""

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
