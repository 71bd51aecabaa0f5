"""Drawn programs of microbatches, and what is noted of a run of one: the turns, and how each microbatch ends.

    Case((("yield", "hook"), ("yield", "raise")))        # what two microbatches do, one word an operation

The engine's own code (`baton_engine`) and ours (`baton_ours`) run the same case and return equal `Noted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

CALLS = {
    "yield": "yield",
    "to_comm": "yield_and_switch_from_compute_to_comm",
    "to_compute": "yield_and_switch_from_comm_to_compute",
    "switch_to_comm": "switch_to_comm",
    "switch_to_compute": "switch_to_compute",
    "switch_to_comm_sync": "switch_to_comm_sync",
    "switch_to_compute_sync": "switch_to_compute_sync",
    "run_hook": "maybe_run_recv_hook",
}
"""By word: the function `dbo_*` that it calls."""
OTHERS = ("hook", "hook_raises", "hook_switches", "previous", "raise")
ON = {
    "compute": ("yield", "to_comm", "switch_to_comm", "switch_to_comm_sync", "hook", "run_hook", "previous"),
    "comm": ("yield", "to_compute", "switch_to_compute", "switch_to_compute_sync", "hook", "run_hook", "previous"),
}
"""By stream: the words that raise nothing there."""

Case = tuple[tuple[str, ...], ...]


class Drawn(RuntimeError):
    """The error of the words `raise` and `hook_raises`."""


class Noted(NamedTuple):
    """`turns`: in order, operations and device events. `ends`: by microbatch its error, "" or "stands"."""

    turns: list[tuple[object, ...]]
    ends: list[str]


class Log:
    """What a run notes, until it is closed."""

    def __init__(self) -> None:
        self.turns: list[tuple[object, ...]] = []
        self.ends: dict[int, str] = {}
        self.closed = False
        self.events = 0

    def note(self, *what: object) -> None:
        if not self.closed:
            self.turns.append(what)

    def event(self, stream: str) -> int:
        """Note that a stream records an event. Returns its number."""
        self.events += 1
        self.note("record", stream, self.events)
        return self.events

    def end(self, number: int, error: Exception | None) -> None:
        if not self.closed:
            self.ends[number] = "" if error is None else type(error).__name__

    def hook(self, word: str, owner: int, switch: Callable[[], None]) -> Callable[[], None]:
        """A hook that a microbatch leaves. Its word says what it does besides the note."""

        def run() -> None:
            self.note("hook of", owner, word)
            if word == "hook_raises":
                raise Drawn
            if word == "hook_switches":
                switch()

        return run

    def noted(self, ubatches: int) -> Noted:
        return Noted(self.turns, [self.ends.get(number, "stands") for number in range(ubatches)])


def draw(random: Random, ubatches: Sequence[int] = (2, 2, 3, 4), without: Sequence[str] = ()) -> Case:
    """Microbatches with the same legal words. In most cases a few words differ, or one microbatch raises.

    `ubatches`: the numbers to draw from. `without`: words that the release does not have.
    """
    words, stream = [], "compute"
    for _ in range(random.randrange(9)):
        words.append(random.choice(ON[stream]))
        stream = words[-1].split("_")[2 if words[-1].startswith("switch") else 1] if "to_" in words[-1] else stream
    case = [list(words) for _ in range(random.choice(ubatches))]
    for _ in range(random.choice((0, 0, 0, 1, 1, 2, 3))):
        one = random.choice(case)
        at = random.randrange(len(one) + 1)
        kept = random.choice((at, at + 1))  # a word more, or another one
        one[at:kept] = [random.choice((*CALLS, *OTHERS, *OTHERS))]
    return tuple(tuple(word for word in one if word not in without) for one in case)
