"""A clock for a loop that looks again and again. It stands while the process cannot run.

    clock = Clock(0.05)                 # each look comes 0.05 s after the last one, or sooner
    clock.look()                        # ns since it was made
    clock.stood                         # whether this process did not run since the last look

Ctrl-Z stops this process with its workers, a debugger or the host of a virtual machine stops it alone, and the
monotonic clock goes on. The workers could not use that time, so a wait for them must not count it. A look that comes
more than `SLACK_NS` too late counts as one that comes just that late. So a deadline by this clock always passes, also
on a machine where each look is late.
"""

from __future__ import annotations

import time

SLACK_NS = 1_000_000_000
"""So late a look may come on a busy machine."""


class Clock:
    """Counts from when it is made. `period`: the longest pause between two looks, in seconds."""

    def __init__(self, period: float) -> None:
        self.stood = False
        self._most_ns = int(period * 1e9) + SLACK_NS
        self._last_ns = time.monotonic_ns()
        self._counted_ns = 0

    def look(self) -> int:
        """The ns that count since it was made."""
        now = time.monotonic_ns()
        since, self._last_ns = now - self._last_ns, now
        self.stood = since > self._most_ns
        self._counted_ns += min(since, self._most_ns)
        return self._counted_ns

    def seconds(self) -> float:
        return self.look() / 1e9
