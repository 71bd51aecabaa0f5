"""Measures how long the processes of a job have slept. The clock alone is not enough, since a busy machine delays all
of them.

After a rank has raised, its peers may wait for it without end, or raise as well a moment later. On a machine with more
work than cores, a moment takes seconds. So the watch counts only the time in which the processes slept. If a thread ran
or waited for a core, that is activity.

    quiet = Quiet(unfinished, now)
    quiet.ns(now)               # ns in which the busiest process slept; 0 if the system does not report it

Linux reports how long a thread ran in `/proc/PID/task/TID/schedstat`: ns on a core, and ns ready without one. On other
systems this count stays at 0, so the whole stall has to pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

SCHEDULER_FILE = "/proc/self/schedstat"
"""The file whose existence shows that this system counts."""


class Busy(Protocol):
    """The method of a worker that this module uses."""

    def busy_ns(self) -> int | None:
        """Returns the `busy_ns` of its process."""


class Quiet:
    """Counts from the time at which no rank makes progress any more."""

    def __init__(self, workers: Iterable[Busy], now: int) -> None:
        self._began = now
        self._before = [(worker, worker.busy_ns()) for worker in workers]

    def ns(self, now: int) -> int:
        """Returns the ns that each of the workers has slept since then."""
        most = 0
        for worker, before in self._before:
            after = worker.busy_ns()
            if before is None or after is None:
                return 0
            most = max(most, after - before)
        return max(0, now - self._began - most)


def busy_ns(process: int) -> int | None:
    """Returns the ns in which the threads of a process ran or waited for a core; None if the system does not report it.
    It is 0 for a process that has ended.
    """
    tasks = Path(f"/proc/{process}/task")
    if not Path(SCHEDULER_FILE).exists():
        return None
    total = 0
    with contextlib.suppress(OSError):
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):  # the thread has ended meanwhile
                ran, waited, _ = (task / "schedstat").read_text().split()
                total += int(ran) + int(waited)
    return total
