"""Draws random programs of microbatches, and defines what a run of one logs: its turns, and how each microbatch ends.

    Case((("yield", "hook"), ("yield", "raise")))        # what two microbatches do, one word for each operation

vLLM's code (`baton_engine`) and dpsim's code (`baton_ours`) run the same case, and must return equal `Noted`.
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
"""The function `dbo_*` that each word of a case calls."""
OTHERS = ("hook", "hook_raises", "hook_switches", "previous", "raise")
ON = {
    "compute": ("yield", "to_comm", "switch_to_comm", "switch_to_comm_sync", "hook", "run_hook", "previous"),
    "comm": ("yield", "to_compute", "switch_to_compute", "switch_to_compute_sync", "hook", "run_hook", "previous"),
}
"""By current stream: the words that are legal there, so that they raise no error."""

Case = tuple[tuple[str, ...], ...]


class Drawn(RuntimeError):
    """The error that the words `raise` and `hook_raises` raise."""


class Noted(NamedTuple):
    """What one run logs.

    `turns`: operations and device events, in order. `ends`: how each microbatch ends: with the name of its error, with
    "", or with "stands" if its thread waits without end.
    """

    turns: list[tuple[object, ...]]
    ends: list[str]


class Log:
    """Collects what a run logs, until the run closes it."""

    def __init__(self) -> None:
        self.turns: list[tuple[object, ...]] = []
        self.ends: dict[int, str] = {}
        self.closed = False
        self.events = 0

    def note(self, *what: object) -> None:
        if not self.closed:
            self.turns.append(what)

    def event(self, stream: str) -> int:
        """Logs that a stream records an event, and returns the number of the event."""
        self.events += 1
        self.note("record", stream, self.events)
        return self.events

    def end(self, number: int, error: Exception | None) -> None:
        if not self.closed:
            self.ends[number] = "" if error is None else type(error).__name__

    def hook(self, word: str, owner: int, switch: Callable[[], None]) -> Callable[[], None]:
        """Returns a hook that the microbatch `owner` leaves.

        The hook logs its call, then raises or switches as `word` prescribes.
        """

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
    """Draws a case: all microbatches run the same legal words, but in most cases a few words differ or one microbatch
    raises.

    `ubatches`: numbers of microbatches to draw from. `without`: words that the release lacks.
    """
    words, stream = [], "compute"
    for _ in range(random.randrange(9)):
        words.append(random.choice(ON[stream]))
        stream = words[-1].split("_")[2 if words[-1].startswith("switch") else 1] if "to_" in words[-1] else stream
    case = [list(words) for _ in range(random.choice(ubatches))]
    for _ in range(random.choice((0, 0, 0, 1, 1, 2, 3))):
        one = random.choice(case)
        at = random.randrange(len(one) + 1)
        kept = random.choice((at, at + 1))  # inserts a word, or replaces one
        one[at:kept] = [random.choice((*CALLS, *OTHERS, *OTHERS))]
    return tuple(tuple(word for word in one if word not in without) for one in case)
