"""Pauses: before each call, a rank sleeps for a drawn time of 0 to 4 ms (`World.pauses`).

So each run has another order of events.

    pauses_of(world, 0).ns("main", "dp.agree", 5)       # 2_113_904

The time depends on the seed of the world and on the address of the call. So the same seed gives the same pauses.

A rank of several threads pauses without the lock of all calls, so its other threads go on meanwhile.
"""

from __future__ import annotations

import threading
import time
from hashlib import blake2b
from typing import NamedTuple

from dpsim.contract.world import World

MOST_NS = 4_000_000
"""The longest pause."""


class Pauses(NamedTuple):
    """The pauses of one rank."""

    seed: int
    rank: int

    def ns(self, thread: str, site: str, ordinal: int) -> int:
        """Returns the pause before the call at an address."""
        text = f"{self.seed} {self.rank} {thread} {site} {ordinal}"
        digest = blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).digest()
        return int.from_bytes(digest) % MOST_NS

    def sleep(self, thread: str, site: str, ordinal: int) -> None:
        """Sleeps before the call at an address."""
        time.sleep(self.ns(thread, site, ordinal) / 1e9)

    def release(self, lock: threading.RLock, thread: str, site: str, ordinal: int) -> None:
        """Sleeps before the call at an address; the calling thread has the lock before and after, but not meanwhile."""
        threading.Condition(lock).wait(self.ns(thread, site, ordinal) / 1e9)


def pauses_of(world: World, rank: int) -> Pauses | None:
    """Returns the pauses of a rank; None if the world has none."""
    return None if world.pauses is None else Pauses(world.pauses, rank)
