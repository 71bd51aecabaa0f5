"""Meeting: the state that all hosts and streams share during the walk: collectives, sends, messages and the ready list.

The walk is the pass over all journals that rebuilds happens-before. Hosts and streams of different ranks never call
each other. One puts the point that it has reached into the `WalkState`, and the other one finds it there, or waits for
it:

    part = meeting.arrive(rank, record, point)       # part.clock is None until its members have arrived
    meeting.sends["pp", 0, 1, seq].set(...)          # the receiver, or its stream, is in meeting.ready if it waits
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dpsim.checks.happens_before.clocks import Clocks, Point
from dpsim.checks.happens_before.mailboxes import MailOrder
from dpsim.checks.happens_before.points import Signal, Sink, Waiter
from dpsim.contract.ops import CALL, COMMUNICATOR, SEQ, RawRecord
from dpsim.contract.rules.wait_set import awaited


class Gathering:
    """A collective that not all members have reached yet.

    `arrived` maps each member that has reached it to the point before its call. All members that wait for every member
    share the signal `whole`. `parts` has an item for each member that waits only for some: its signal, its rank, and
    the ranks that it waits for.
    """

    __slots__ = ("arrived", "parts", "whole")

    def __init__(self) -> None:
        self.arrived: dict[int, Point] = {}
        self.whole: Signal | None = None
        self.parts: list[tuple[Signal, int, Sequence[int]]] = []


class WalkState:
    """The state that all hosts and streams of a walk share. `members` maps a communicator to its ranks.

    `joint`: each member of a collective waits for all. `passed`: for each rank, the points that its streams certainly
    reached; a send after such a point waits for its receiver. If it is None, no send waits. `sends` and `receives` are
    signals by (communicator, sender, receiver, number). `ready`: the hosts and streams that can continue.
    """

    def __init__(
        self,
        clocks: Clocks,
        sink: Sink,
        mail: MailOrder,
        members: Mapping[str, Sequence[int]],
        joint: bool = False,
        passed: Sequence[Mapping[str, int]] | None = None,
    ) -> None:
        self.clocks, self.sink, self.mail, self.members, self.joint = clocks, sink, mail, members, joint
        self.passed = passed
        self.ready: list[Waiter] = []
        self.sends: defaultdict[tuple[str, int, int, int], Signal] = defaultdict(Signal)
        self.receives: defaultdict[tuple[str, int, int, int], Signal] = defaultdict(Signal)
        self.gatherings: dict[tuple[str, int], Gathering] = {}

    def arrive(self, rank: int, raw: RawRecord, point: Point) -> Signal:
        """Notes that a member has reached a collective, and returns the signal that ends its part.

        The signal fires when the members that this one waits for have arrived. Its clock contains what happened before
        their calls. It does not contain the calls themselves, because a member may return before others have finished.
        """
        key = raw[COMMUNICATOR], raw[SEQ]
        members = self.members[raw[COMMUNICATOR]]
        gathering = self.gatherings.get(key)
        if gathering is None:
            gathering = self.gatherings[key] = Gathering()
        arrived = gathering.arrived
        arrived[rank] = point
        others = members if self.joint else awaited(raw[CALL], rank, members)
        if others is members:
            part = gathering.whole
            if part is None:
                part = gathering.whole = Signal()
        else:
            part = Signal()
            gathering.parts.append((part, rank, others))
        if gathering.parts:
            gathering.parts = [one for one in gathering.parts if not self._fires(one, arrived)]
        if len(arrived) == len(members):
            if gathering.whole is not None:
                gathering.whole.set(self.clocks.joint(list(arrived.values())), 0, 0, self.ready)
            del self.gatherings[key]
        return part

    def _fires(self, item: tuple[Signal, int, Sequence[int]], arrived: dict[int, Point]) -> bool:
        part, rank, others = item
        for other in others:
            if other not in arrived:
                return False
        part.set(
            self.clocks.joint([arrived[rank], *[arrived[other] for other in others if other != rank]]), 0, 0, self.ready
        )
        return True
