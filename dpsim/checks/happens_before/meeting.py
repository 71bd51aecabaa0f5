"""The shared state of hosts and streams during the walk: collectives, sends, messages, and the ready list.

Hosts and streams use the `WalkState`, and never another rank or the walk that drives them. Each puts its points there,
and finds there the points that it comes after.

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
    """A collective during the arrival of its members. `came`: the point before the part of each. `whole`: the part of
    all members that wait for all, which have the same knowledge. `parts`: the parts that wait for some members, with
    their rank and these members.
    """

    __slots__ = ("came", "parts", "whole")

    def __init__(self) -> None:
        self.came: dict[int, Point] = {}
        self.whole: Signal | None = None
        self.parts: list[tuple[Signal, int, Sequence[int]]] = []


class WalkState:
    """The state that all hosts and streams of a walk share. `members`: communicator -> its ranks.

    `joint`: all members of a collective wait for all. `passed`: for each rank, the points that its streams certainly
    reached; a send behind such a point waits for its receiver. None: no send waits. `sends`, and the `receives` of such
    sends: by (communicator, sender, receiver, number). `ready`: the hosts and streams that can continue.
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
        """A member has reached a collective. Returns the point of its part, which is set when the members that it waits
        for have arrived. The point knows what lay before their parts, and not that these parts are over.
        """
        key = raw[COMMUNICATOR], raw[SEQ]
        members = self.members[raw[COMMUNICATOR]]
        gathering = self.gatherings.get(key)
        if gathering is None:
            gathering = self.gatherings[key] = Gathering()
        came = gathering.came
        came[rank] = point
        others = members if self.joint else awaited(raw[CALL], rank, members)
        if others is members:
            part = gathering.whole
            if part is None:
                part = gathering.whole = Signal()
        else:
            part = Signal()
            gathering.parts.append((part, rank, others))
        if gathering.parts:
            gathering.parts = [one for one in gathering.parts if not self._fires(one, came)]
        if len(came) == len(members):
            if gathering.whole is not None:
                gathering.whole.set(self.clocks.joint(list(came.values())), 0, 0, self.ready)
            del self.gatherings[key]
        return part

    def _fires(self, item: tuple[Signal, int, Sequence[int]], came: dict[int, Point]) -> bool:
        part, rank, others = item
        for other in others:
            if other not in came:
                return False
        part.set(self.clocks.joint([came[rank], *[came[other] for other in others if other != rank]]), 0, 0, self.ready)
        return True
