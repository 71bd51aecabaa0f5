"""Where the time of a pool goes: how often each phase ran, and its seconds in total.

    spent = Spent()
    with spent.on("start"):
        ...
    str(spent)                  # "start 1 x 2.1 s"

A pool of workers is in one phase at a time, such as a start. So the seconds add up to the time that its user waited.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Spent:
    """Counts and seconds by phase, in the order in which the phases first ran."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, phase: str) -> Iterator[None]:
        """Counts a phase for the duration of the block, even if it raises."""
        self.times[phase] += 1
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.monotonic() - start

    def __str__(self) -> str:
        return ", ".join(f"{phase} {self.times[phase]} x {seconds:.1f} s" for phase, seconds in self.seconds.items())
