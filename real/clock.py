"""A clock for a polling loop. It does not advance while the process cannot run.

    clock = Clock(0.05)                 # the loop calls look() at least every 0.05 s
    clock.look()                        # ns since the clock was created
    clock.stood                         # whether this process did not run since the last call

Ctrl-Z stops this process together with its workers; a debugger or a suspended virtual machine may also stop it. The
monotonic clock of the system continues meanwhile. The workers could not use that time, so a deadline for them must not
count it. If a call of `look` is more than `SLACK_NS` late, the clock counts only that much delay. So a deadline by this
clock always passes, even on a machine where each call is late.
"""

from __future__ import annotations

import time

SLACK_NS = 1_000_000_000
"""The delay of a call that may be due to a busy machine; a longer one means that the process did not run."""


class Clock:
    """Counts from its creation. `period`: the longest pause between two calls of `look`, in seconds."""

    def __init__(self, period: float) -> None:
        self.stood = False
        self._most_ns = int(period * 1e9) + SLACK_NS
        self._last_ns = time.monotonic_ns()
        self._counted_ns = 0

    def look(self) -> int:
        """Returns the counted ns since the clock was created."""
        now = time.monotonic_ns()
        since, self._last_ns = now - self._last_ns, now
        self.stood = since > self._most_ns
        self._counted_ns += min(since, self._most_ns)
        return self._counted_ns

    def seconds(self) -> float:
        return self.look() / 1e9
