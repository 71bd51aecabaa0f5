"""Which parts of collectives and transfers end early, where there is no time: the first of each line, and no more.

The contract lets a member wait for more peers than those whose elements it gets. A send may end before its receive or
with it, and two sends may differ in this. So if a member need not wait for all, a draw selects one of two:

* *eager*: its part ends when the members have arrived for which it has to wait;
* *rendezvous*: its part ends when all members have arrived.

The run does not draw every combination. A *line* is a sequence of ops one after the other: what a host thread awaits,
or what a rank puts on a device communicator. On each line, ops are eager up to the first rendezvous, and all later ones
are rendezvous. So `k` ops have `k + 1` outcomes.

These outcomes suffice. In any run, at most one op of a line never ends, and all ops before it have ended. An op that
ended late shows nothing else than one that ended early. The ops after it came late, and any step may come late without
a reason. So every run equals one in which all ops before the hanging op are eager and the hanging op is a rendezvous.
The ops after it on the line never happen, so their draws have no effect. (A coalesced group ends as one: if one of its
transfers never ends, no rank sees which of the others ended.)

For the same reason a rendezvous shows something new only if it never ends. A run can tell whether it would (`MayWait`).
All ops behind it carry a bit, which says whether the last of its peers came because of it.

A draw happens when the program can first see its effect. A host that starts a send continues, so the run draws when the
host awaits the end. On a device, the run draws when a host issues the op.

Rejected: one draw for all sends of a size between two ranks, since a buffer can have room for one and not for the next.
Also rejected: a draw for each op, since eight ops make 256 schedules that show no more than nine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op


class MayWait:
    """An op that ends with `end`, or else when `all_came`. See `dpsim.contract.schedule.OptionalWait`. If a kill later
    strikes its host, it says nothing. A kill in the op equals a kill right behind it. A host that stands in the op
    without end and does not die is another run (`dpsim.sim.graph.op.in_the_end`).
    """

    __slots__ = ("_all_came", "_dead", "_end", "_host", "bit", "label")

    def __init__(self, label: str, end: Op, all_came: Op, host: int, dead: Mapping[int, bool]) -> None:
        self.label = label
        self.bit = 0
        self._end = end
        self._all_came = all_came
        self._host = host
        self._dead = dead

    @property
    def ended(self) -> bool:
        return self._end.at >= 0 and self._host not in self._dead

    @property
    def met(self) -> int | None:
        return self._all_came.causes if self._all_came.at >= 0 else None


class MayWaitInTime(MayWait):
    """The same of a wait with a time-out that is `up` then. The last peer may come
    behind a sleep that outlasts it. Then the rank goes on without the end, and that is new.
    """

    __slots__ = ("_knew", "_sleeps", "_up")

    def __init__(self, label: str, end: Op, all_came: Op, host: WaitsHost, up: int) -> None:
        super().__init__(label, end, all_came, ~host.rank, host.machine.dead)
        self._sleeps, self._knew, self._up = host.machine.alarms.sleeps, host.causes, up

    @property
    def met(self) -> int | None:
        met = super().met
        return None if met is not None and met & self._sleeps.late(self._knew, self._up) else met


class WaitsHost(Protocol):
    """The host that waits."""

    rank: int
    machine: Machine
    causes: int


class EarlyEnds:
    """Ops of a rank of which each starts when the one before has ended."""

    __slots__ = ("_machine", "_rank", "_waits")

    def __init__(self, machine: Machine, rank: int) -> None:
        self._machine = machine
        self._rank = rank
        self._waits = False

    def next(self, label: str, end: Op, all_came: Op) -> tuple[bool, int]:
        """Whether the next op of the line waits until all came, and the bit of what comes after it."""
        if self._waits:
            return True, 0
        machine = self._machine
        wait = MayWait(label, end, all_came, ~self._rank, machine.dead)
        self._waits = machine.waits(wait)
        return self._waits, wait.bit
