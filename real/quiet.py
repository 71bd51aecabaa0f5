"""How long the processes of a job have done nothing: not only by the clock, for a busy machine makes all of them late.

After a rank has raised, its peers may wait for it without end, or raise as well a moment later. On a machine with more
work than cores, a moment takes seconds. So the watch counts only the time in which a process slept. Time in which a
thread ran or waited for a core counts as activity.

    quiet = Quiet(unfinished, now)
    quiet.ns(now)               # ns in which the busiest of them slept; 0 where the system does not say

Linux says so in `/proc/PID/task/TID/schedstat`: ns on a core, ns ready and without one. Elsewhere this clock stands, so
the whole stall has to pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

SAYS = "/proc/self/schedstat"
"""Where a process learns whether this system counts."""


class Busy(Protocol):
    """What this needs of a worker."""

    def busy_ns(self) -> int | None:
        """As `busy_ns` says of its process."""


class Quiet:
    """Begins when nothing moves any more."""

    def __init__(self, workers: Iterable[Busy], now: int) -> None:
        self._began = now
        self._before = [(worker, worker.busy_ns()) for worker in workers]

    def ns(self, now: int) -> int:
        """ns that each of the workers has slept since this began."""
        most = 0
        for worker, before in self._before:
            after = worker.busy_ns()
            if before is None or after is None:
                return 0
            most = max(most, after - before)
        return max(0, now - self._began - most)


def busy_ns(process: int) -> int | None:
    """ns that the threads of a process ran or waited for a core; None where the system does not say. A process that is
    gone was busy for 0 ns.
    """
    tasks = Path(f"/proc/{process}/task")
    if not Path(SAYS).exists():
        return None
    total = 0
    with contextlib.suppress(OSError):
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):  # a thread that ends
                ran, waited, _ = (task / "schedstat").read_text().split()
                total += int(ran) + int(waited)
    return total
