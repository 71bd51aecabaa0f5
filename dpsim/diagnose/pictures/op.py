"""Op: the elements of a picture: ops with their times, holes where a call is missing, and arrows.

    DrawnOp(rank=0, lane="host", kind="collective", said="all_reduce int32[8] on dp_cpu #5", ..., begin=21, came=None)

Times are ticks of logical time (`dpsim.diagnose.pictures.logical_time`), or ns if the run has times. An op waits from
`begin` to `arrival`, which is the arrival of the last rank that it waits for. It executes from `arrival` to `end`. An
op that never ends has neither `arrival` nor `end`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

HOST = "host"
"""The lane of a rank's main thread."""

Key: TypeAlias = tuple[str, int]
"""What all parts of a collective, transfer or message share: the communicator or mailbox, and a number."""


class TimePoint:
    """A point in time that ops, lanes and threads wait for. `time` is None until it is known."""

    __slots__ = ("time", "waiters")

    def __init__(self) -> None:
        self.time: int | None = None
        self.waiters: list[Follower] = []

    def set(self, time: int, ready: list[Follower]) -> None:
        """Sets the time, and makes all waiters ready."""
        self.time = time
        ready.extend(self.waiters)
        self.waiters = []


class Follower:
    """An object that continues when a time point is set."""

    __slots__ = ()

    def go(self, ready: list[Follower]) -> None:
        raise NotImplementedError


NEVER = TimePoint()
"""The point that no run reaches."""


class DrawnOp(Follower):
    """A call of a rank, or an op on a stream.

    `address`: site and ordinal. `needs`: the ranks that it waits for. `after`: the points that it waits for. `length`:
    how long it executes, in ticks or ns. `until`: when it ended, if the run has that. `silent`: it has no length, and
    is drawn only if it waits. `passive`: the host only waits in it. `label`: for an op that never ends, what it waits
    for, in words. `marked`: it is the culprit's op, one of two unordered accesses, or one of the decisions that differ.
    `turning`: None, or the words of the mark of an op whose swap with another lets the run finish, "" for an outline
    alone.
    """

    __slots__ = (
        "address",
        "after",
        "arrival",
        "began",
        "begin",
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
        "passive",
        "rank",
        "said",
        "silent",
        "site",
        "step",
        "turning",
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
        self.silent, self.passive = not length, False
        self.until: int | None = None
        self.after: list[TimePoint] = []
        self.began, self.over = TimePoint(), TimePoint()
        self.issued = 0
        self.begin: int | None = None
        self.arrival: int | None = None
        self.end: int | None = None
        self.label = ""
        self.marked = False
        self.turning: str | None = None

    def start(self, time: int, ready: list[Follower]) -> None:
        """Begins the op, when its rank or stream reaches it."""
        if self.begin is None:
            self.begin = time
            self.began.set(time, ready)
            self.go(ready)

    def go(self, ready: list[Follower]) -> None:
        """Ends the op if all points that it waits for have a time; otherwise it waits for the next one."""
        if self.end is not None or self.begin is None:
            return
        arrival = self.begin
        for signal in self.after:
            if signal.time is None:
                if signal is not NEVER:
                    signal.waiters.append(self)
                return
            arrival = max(arrival, signal.time)
        self.finish(arrival, ready)

    def finish(self, arrival: int, ready: list[Follower]) -> None:
        """Ends the op, which executes from `arrival` on."""
        self.end = arrival + self.length if self.until is None else max(self.until, self.begin or 0)
        self.arrival = self.end if self.passive and self.until is not None else min(arrival, self.end)
        self.over.set(self.end, ready)


class Hole(NamedTuple):
    """A call that a rank did not make, at the place of its peers' op. `culprit`: it is the cause of the failure."""

    rank: int
    op: DrawnOp
    culprit: bool


class Arrow(NamedTuple):
    """An arrow from an op that never ends to the op that it waits for."""

    op: DrawnOp
    to: DrawnOp


@dataclass
class Picture:
    """The ops of all ranks, with a report.

    `actors`: the name of each rank and service. `ends`: how each ended. `lines`: the report. `culprits`: the ranks that
    are the cause. `pairs`: pairs of unordered accesses. `turns`: pairs of ops whose swap lets the run finish.
    `arrows`: waits of hosts and streams. `undecided`: there is a finding without a culprit. `focus`: the step to show
    first; None for the end. `unit`: the unit of times, "tick" or "ns". `open_ends`: the run has times, but lacks the
    ends of ops on streams.
    """

    title: str
    lines: Sequence[str]
    actors: Sequence[str]
    ends: Sequence[str]
    ops: list[DrawnOp]
    culprits: Sequence[int] = ()
    holes: list[Hole] = field(default_factory=list)
    pairs: list[tuple[DrawnOp, DrawnOp]] = field(default_factory=list)
    turns: list[tuple[DrawnOp, DrawnOp]] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    undecided: bool = False
    focus: int | None = None
    unit: str = "tick"
    open_ends: bool = False

    @property
    def last(self) -> int:
        """The last time at which any op begins or ends."""
        return max((one.end or one.begin or 0 for one in self.ops), default=0)
