"""Time, as the simulation gives it: the same in each run of a schedule.

A rank's clock starts at a fixed moment. It goes on by a microsecond when the rank looks at it, and by the time that the
rank sleeps. Where the rank looks again and again and makes no call, each look counts more. So a loop until a deadline
ends, and two looks differ. `time.sleep` is a sleep of the simulation. `datetime` reads this clock too, where a module
takes it from `datetime` after the start of the rank.
"""

from __future__ import annotations

import datetime as dates
import time
from typing import Any

from dpsim.torch.child.frames import site
from dpsim.torch.child.pipe import ask

BEGIN = 1_700_000_000_000_000_000
"""Nanoseconds since 1970 at which each rank begins."""
LOOK = 1_000
MOST = 1_000_000_000


class RankClock:
    """The clock of this rank, in nanoseconds since its beginning."""

    def __init__(self) -> None:
        self.passed = 0
        self.by = LOOK

    def look(self) -> int:
        self.passed += self.by
        self.by = min(self.by + self.by // 16 + 1, MOST)
        return self.passed

    def works(self) -> None:
        """The rank made a call: it does not only look at its clock."""
        self.by = LOOK


CLOCK = RankClock()


def install() -> None:
    """Give this clock to the process."""
    for name, start in (
        ("time", BEGIN),
        ("monotonic", 0),
        ("perf_counter", 0),
        ("process_time", 0),
        ("thread_time", 0),
    ):
        setattr(time, name, lambda start=start: (start + CLOCK.look()) / 1e9)
        setattr(time, f"{name}_ns", lambda start=start: start + CLOCK.look())
    time.sleep = _sleep  # type: ignore[assignment]
    for name in ("gmtime", "localtime"):
        setattr(time, name, _given(getattr(time, name)))
    dates.datetime = Datetime  # type: ignore[misc]


def _given(original: Any) -> Any:
    return lambda seconds=None: original(time.time() if seconds is None else seconds)


def _sleep(seconds: float, /) -> None:
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
