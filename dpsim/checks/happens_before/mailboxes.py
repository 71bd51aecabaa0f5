"""Messages while a run is walked: which post it may have been that a host took.

Journals say what was taken, not from whom. Those of one sender arrive in the order in which they were sent, so a post
may be the one if it has the content and is not surely taken already; `walk` says what is made of several.

    for letters, number, signal in mail.candidates(rank, "box", message): ...    # the earliest of each sender
    letters.taken = number + 1                    # if only one sender may be: all up to its post are taken
"""

from __future__ import annotations

from typing import Any

from dpsim.checks.happens_before.clocks import Clock
from dpsim.checks.happens_before.points import Signal, Waiter
from dpsim.ops import POST_CONTENT, POST_MAILBOX, POST_TO, RawRecord


class Letters:
    """All that one rank ever posts to a mailbox, how much of it it has posted, and how much is surely taken."""

    __slots__ = ("posts", "sent", "taken")

    def __init__(self) -> None:
        self.posts: list[tuple[Any, Signal]] = []
        self.sent = self.taken = 0


class Mail:
    """The letters of a run, by mailbox and sender."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[int, str], dict[int, Letters]] = {}

    def add(self, rank: int, raw: RawRecord) -> None:
        """Before the walk: a post of the run."""
        letters = self._boxes.setdefault((raw[POST_TO], raw[POST_MAILBOX]), {}).setdefault(rank, Letters())
        letters.posts.append((raw[POST_CONTENT], Signal()))

    def post(self, rank: int, raw: RawRecord, clock: Clock, ready: list[Waiter]) -> None:
        """The walk has come to a post."""
        letters = self._boxes[raw[POST_TO], raw[POST_MAILBOX]][rank]
        letters.posts[letters.sent][1].set(clock, 0, 0, ready)
        letters.sent += 1

    def candidates(self, rank: int, box: str, message: Any) -> list[tuple[Letters, int, Signal]]:
        """(letters, number, signal) of the earliest post of each sender that may be the message."""
        found = []
        for letters in self._boxes.get((rank, box), {}).values():
            posts = letters.posts
            for number in range(letters.taken, len(posts)):
                if posts[number][0] == message:
                    found.append((letters, number, posts[number][1]))
                    break
        return found
