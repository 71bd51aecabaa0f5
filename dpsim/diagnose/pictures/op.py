"""What a picture is made of: ops with their times, holes where a call is missing, and the words beside them.

    DrawnOp(rank=0, lane="host", kind="collective", said="all_reduce int32[8] on dp_cpu #5", ..., begin=21, came=None)

Times are ticks of logical time (`dpsim.diagnose.pictures.logical_time`), or ns where a run has times. An op waits from
`begin` to `came`, when the last of those came that it waits for, and moves from `came` to `end`. An op that never ends
has no `came` and no `end`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

HOST = "host"
"""The lane of a rank's main thread."""

Key: TypeAlias = tuple[str, int]
"""What the parts of one collective, transfer or message have in common: communicator or mailbox, and a number."""


class TimePoint:
    """A point in time that ops, lanes and threads wait for. `time`: None until it is known."""

    __slots__ = ("time", "waiters")

    def __init__(self) -> None:
        self.time: int | None = None
        self.waiters: list[Follower] = []

    def set(self, time: int, ready: list[Follower]) -> None:
        """The point is at that time. Its waiters can go on."""
        self.time = time
        ready.extend(self.waiters)
        self.waiters = []


class Follower:
    """What goes on when a signal is set."""

    __slots__ = ()

    def go(self, ready: list[Follower]) -> None:
        raise NotImplementedError


NEVER = TimePoint()
"""The point that no run reaches."""


class DrawnOp(Follower):
    """A call of a rank, or a stretch of a stream. `address`: site and ordinal. `needs`: the ranks that it waits for.
    `after`: the points that it waits for. `length`: ticks or ns that it moves. `until`: when it ended, where a run has
    that. `silent`: it has no length, and is shown where it waits. `label`: of one that never ends, for what it
    waits, in words. `marked`: it is the culprit's, or one of two that have no order.
    """

    __slots__ = (
        "address",
        "after",
        "began",
        "begin",
        "came",
        "end",
        "issued",
        "key",
        "kind",
        "label",
        "lane",
        "length",
        "marked",
        "needs",
        "over",
        "rank",
        "said",
        "silent",
        "site",
        "step",
        "until",
        "where",
    )

    def __init__(
        self,
        rank: int,
        lane: str,
        kind: str,
        said: str,
        site: str,
        address: str = "",
        step: int = -1,
        where: str = "",
        key: Key | None = None,
        needs: Sequence[int] = (),
        length: int = 1,
    ) -> None:
        self.rank, self.lane, self.kind, self.said = rank, lane, kind, said
        self.site, self.address, self.step, self.where = site, address or site, step, where
        self.key, self.needs, self.length = key, needs, length
        self.silent = not length
        self.until: int | None = None
        self.after: list[TimePoint] = []
        self.began, self.over = TimePoint(), TimePoint()
        self.issued = 0
        self.begin: int | None = None
        self.came: int | None = None
        self.end: int | None = None
        self.label = ""
        self.marked = False

    def start(self, time: int, ready: list[Follower]) -> None:
        """The rank, or its stream, reaches the op."""
        if self.begin is None:
            self.begin = time
            self.began.set(time, ready)
            self.go(ready)

    def go(self, ready: list[Follower]) -> None:
        """End, if all is there that the op waits for; else wait for the next point."""
        if self.end is not None or self.begin is None:
            return
        came = self.begin
        for signal in self.after:
            if signal.time is None:
                if signal is not NEVER:
                    signal.waiters.append(self)
                return
            came = max(came, signal.time)
        self.finish(came, ready)

    def finish(self, came: int, ready: list[Follower]) -> None:
        """The op moves from `came` on, and ends."""
        self.end = came + self.length if self.until is None else max(self.until, self.begin or 0)
        self.came = min(came, self.end)
        self.over.set(self.end, ready)


class Hole(NamedTuple):
    """A call that a rank did not make: where its peers made it, and their op. `culprit`: it is the cause."""

    rank: int
    op: DrawnOp
    culprit: bool


class Arrow(NamedTuple):
    """An op that never ends, and the op of the host or stream that it waits for."""

    op: DrawnOp
    to: DrawnOp


@dataclass
class Picture:
    """Ops of all ranks, and the report beside them. `actors`: the name of each rank and service. `ends`: how each
    ended. `lines`: the report. `culprits`: the ranks that are the cause. `pairs`: two ops each that have no order.
    `arrows`: waits of hosts and streams for each other. `undecided`: there is a finding, and no rank is its culprit.
    `focus`: the step to look at, None for the end. `unit`: what times are, "tick" or "ns".
    `open_ends`: the run has times, but not of the ends of ops on streams.
    """

    title: str
    lines: Sequence[str]
    actors: Sequence[str]
    ends: Sequence[str]
    ops: list[DrawnOp]
    culprits: Sequence[int] = ()
    holes: list[Hole] = field(default_factory=list)
    pairs: list[tuple[DrawnOp, DrawnOp]] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    undecided: bool = False
    focus: int | None = None
    unit: str = "tick"
    open_ends: bool = False

    @property
    def last(self) -> int:
        """The last time at which anything begins or ends."""
        return max((one.end or one.begin or 0 for one in self.ops), default=0)
