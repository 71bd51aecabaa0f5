"""Where hosts and streams meet while a run is walked: collectives, sends, events, messages, and who can go on.

Hosts and streams know the `Meeting`, never another rank's or the walk that drives them. Each puts there what others may
come after, and finds there what it comes after itself.

    joint = meeting.arrive(record, point)            # joint.clock is None until the last member has come
    meeting.sends["pp", 0, 1, seq].set(...)          # the receiver, or its stream, is in meeting.ready if it waits
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from dpsim.checks.happens_before.clocks import Clocks, Point
from dpsim.checks.happens_before.mailboxes import Mail
from dpsim.checks.happens_before.points import Joint, Signal, Sink, Waiter
from dpsim.ops import COMMUNICATOR, SEQ, RawRecord


class Meeting:
    """What all hosts and streams of a walk share. `members`: communicator -> how many ranks have to come.

    `marks`: the events, by (rank, event). `sends`: by (communicator, sender, receiver, number). `ready`: who can go on.
    """

    def __init__(self, clocks: Clocks, sink: Sink, mail: Mail, members: Mapping[str, int]) -> None:
        self.clocks, self.sink, self.mail, self.members = clocks, sink, mail, members
        self.ready: list[Waiter] = []
        self.marks: dict[tuple[int, int], Signal] = {}
        self.sends: defaultdict[tuple[str, int, int, int], Signal] = defaultdict(Signal)
        self.joints: dict[tuple[str, int], Joint] = {}

    def arrive(self, raw: RawRecord, point: Point) -> Joint:
        """A member has come to a collective."""
        key = raw[COMMUNICATOR], raw[SEQ]
        joint = self.joints.get(key)
        if joint is None:
            joint = self.joints[key] = Joint()
        joint.points.append(point)
        if len(joint.points) == self.members[raw[COMMUNICATOR]]:
            joint.set(self.clocks.joint(joint.points), 0, 0, self.ready)
            joint.points.clear()
            del self.joints[key]
        return joint
