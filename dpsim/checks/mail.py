"""Messages while a run is walked: which post it may have been that a host took.

Journals say what was taken, not from whom. Those of one sender arrive in the order in which they were sent, so a post
may be the one if it has the content and is not surely taken already; `order` says what is made of several.

    posts = mail.candidates(rank, "box", message)        # the earliest of each sender that may be it
    mail.taken(rank, "box", posts)                       # if only one sender may be, all up to its post are taken
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dpsim.checks.clocks import Clock
from dpsim.checks.streams import Signal
from dpsim.ops import RawRecord
from dpsim.world import Run


class Mail:
    """Posts of the whole run, and how many of each sender are surely taken."""

    def __init__(self, run: Run) -> None:
        self.posts: dict[tuple[int, str], dict[int, list[tuple[Any, Signal]]]] = {}
        self.surely: defaultdict[tuple[int, str, int], int] = defaultdict(int)
        self._sent: defaultdict[tuple[int, str, int], int] = defaultdict(int)
        for rank, journal in enumerate(run.journals):
            for raw in journal:
                if raw[0] == "post":
                    box = self.posts.setdefault((raw[5], raw[6]), {})
                    box.setdefault(rank, []).append((raw[7], Signal()))

    def post(self, rank: int, raw: RawRecord, clock: Clock, ready: list[Any]) -> None:
        key = raw[5], raw[6], rank
        self.posts[raw[5], raw[6]][rank][self._sent[key]][1].set(clock, 0, 0, ready)
        self._sent[key] += 1

    def candidates(self, rank: int, box: str, message: Any) -> list[tuple[int, int, Signal]]:
        """(sender, number, signal) of the earliest post of each sender that may be the message."""
        found = []
        for sender, posts in self.posts.get((rank, box), {}).items():
            for number in range(self.surely[rank, box, sender], len(posts)):
                if posts[number][0] == message:
                    found.append((sender, number, posts[number][1]))
                    break
        return found

    def taken(self, rank: int, box: str, posts: list[tuple[int, int, Signal]]) -> None:
        if len(posts) == 1:
            [(sender, number, _)] = posts
            self.surely[rank, box, sender] = number + 1
