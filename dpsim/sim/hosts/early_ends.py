"""Untimed mode: which parts of collectives and transfers end early. The strategy draws a few cases that cover all
others.

A rank has a *part* in each collective. The contract allows a part to wait for more peers than those from which it
receives. A send may end before its receive or with it, and two sends may differ in this. So if a part need not wait for
all members, the strategy draws one of two:

* *eager*: its part ends when the members have arrived for which it has to wait;
* *rendezvous*: its part ends when all members have arrived.

Not every combination of eager and rendezvous shows something. A *line* is a sequence of ops, each of which starts after
the one before. For example, the calls that one host thread awaits are a line, or the calls of a rank on one device
communicator. In a run, at most one op of a line never ends, and all ops before it have ended. An op that ended late has
the same effects as one that ended early and was followed by a delay, which any run may have. So every run equals one in
which all ops before the hanging op are eager and the hanging op is a rendezvous. The ops after it never happen. So the
draw of an op behind a rendezvous shows nothing new (`MayWait.counts`), and `k` ops have `k + 1` outcomes. (A coalesced
group ends as one op: if one of its transfers never ends, no rank sees which others ended.)

For the same reason, a rendezvous shows something new only if it never ends. A run can tell whether it would have waited
(`MayWait`). All ops behind the draw carry a bit in `causes`. If the last peer arrived because of this op, its `causes`
contain that bit.

Time-outs are an exception, because a delay of an early end has no length. The last peer may arrive after a sleep that
outlasts what the rank knew. Then the rendezvous ends that late, and time-outs may pass before what follows. So in a run
with time-outs, such an op is drawn, too, and the draws of the ops behind a rendezvous count. A device draws where its
host issues the op, perhaps before the first time-out is set. So only the end of a run tells which draws count.

The strategy draws whether an op is eager when the program can first see the effect. A host that starts a send
continues, so the draw happens when the host awaits the end. On a device, the draw happens when the host issues the op.

Rejected: one draw for all sends of a size between two ranks, since a buffer can have room for one and not for the next.
Also rejected: a draw for each op, since eight ops make 256 schedules that show no more than nine.
"""

from __future__ import annotations

from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op


class MayWait:
    """A choice of an op (`dpsim.contract.schedule.OptionalWait`): it ends with `end`, or when `all_arrived` fires. If a
    kill later hits its host, `ended` is False: a kill within the op equals a kill right behind it. A host that waits in
    the op without end and does not die is another run (`dpsim.sim.graph.op.in_the_end`). `up`: in ns, the end of the
    host's time-out, or the first moment after the sleeps that it `knew`. `behind`: an op before it on its line is a
    rendezvous.
    """

    __slots__ = ("_alarms", "_all_arrived", "_behind", "_dead", "_end", "_host", "_knew", "_up", "bit", "label")

    def __init__(
        self,
        label: str,
        end: Op,
        all_arrived: Op,
        host: int,
        machine: Machine,
        knew: int,
        up: int,
        behind: bool = False,
    ) -> None:
        self.label = label
        self.bit = 0
        self._end = end
        self._all_arrived = all_arrived
        self._host = host
        self._dead = machine.dead
        self._alarms, self._knew, self._up = machine.alarms, knew, up
        self._behind = behind

    @property
    def counts(self) -> bool:
        return not self._behind or bool(self._alarms.awaited)

    @property
    def ended(self) -> bool:
        return self._end.at >= 0 and self._host not in self._dead

    @property
    def met(self) -> int | None:
        met = self._all_arrived.causes if self._all_arrived.at >= 0 else None
        if met is None or not self._alarms.awaited:
            return met
        return None if met & self._alarms.sleeps.late(self._knew, self._up) else met


class EarlyEnds:
    """A line: a sequence of ops of a rank, each of which starts when the one before has ended."""

    __slots__ = ("_machine", "_rank", "_waits")

    def __init__(self, machine: Machine, rank: int) -> None:
        self._machine = machine
        self._rank = rank
        self._waits = False

    def next(self, label: str, end: Op, all_arrived: Op, knew: int) -> tuple[bool, int]:
        """Returns whether the next op waits for all, and the bit of all ops behind it. `knew`: at the draw."""
        machine = self._machine
        up = machine.alarms.sleeps.clock(knew) + 1
        wait = MayWait(label, end, all_arrived, ~self._rank, machine, knew, up, self._waits)
        waits = machine.waits(wait)
        self._waits |= waits
        return waits, wait.bit
