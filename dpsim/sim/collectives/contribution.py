"""What one member sends in a collective or transfer, and how it receives.

A collective has one contribution for each member, a transfer has two. The simulator creates a contribution when a host
issues the call, and keeps it until the op has sent and received all its elements. Input and output buffers may alias,
so an op sends all of its elements before it receives any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import resized
from dpsim.contract.interface import HostArray
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.lives import LEFT
from dpsim.sim.graph.op import Op


class Contribution:
    """What one member adds to a collective or transfer.

    * `issue`: the call as the journal announced it.
    * `output`, `source`: the flat memory that the member receives into and sends from. They may be the same.
    * `before`: the ops that come before the member's arrival. `joined`: since when it waits, in ns.
    * `touches`: its memory as a footprint, if a strategy or a check needs that.
    * `arrival`: the op by which the member arrives, if there is one.
    * `eager`: the send ends for the sender before the receiver receives it.
    * `at`: (journal, communicator, site, ordinal) of a reduction that compares floating-point numbers (max or min).
    """

    __slots__ = ("arrival", "at", "before", "eager", "issue", "joined", "output", "source", "touches")

    def __init__(
        self,
        issue: Issue,
        output: HostArray,
        source: HostArray,
        before: Sequence[Op],
        joined: int,
        touches: Footprint = (),
    ) -> None:
        self.issue = issue
        self.output = output
        self.source = source
        self.before = before
        self.joined = joined
        self.touches = touches
        self.eager = False
        self.arrival: Op | None = None
        self.at: tuple[Journal, str, str, int] | None = None

    def sent(self) -> HostArray:
        """Returns the member's memory itself, so read it before any member receives."""
        return resized(self.source, self.issue) if self.issue.altered else self.source

    def keep(self) -> None:
        """Copies the elements that the member sends, so that the program may reuse the memory."""
        self.source = np.array(self.sent())

    def let_go(self) -> None:
        """After an abort, the program may reuse the memory, and a member that has not arrived never arrives."""
        if self.arrival is not None and self.arrival.at < 0:
            self.arrival.life = LEFT
        self.keep()
        self.output = np.empty_like(self.output)

    def receive(self, wire: HostArray) -> None:
        """Copies as many elements as fit. If dtypes differ, it copies bytes, since a transfer does not convert."""
        output = self.output
        if output.dtype is not wire.dtype:
            output, wire = output.view(np.uint8), np.ascontiguousarray(wire).view(np.uint8)
        if output.size == wire.size:
            output[...] = wire
        else:
            size = min(output.size, wire.size)
            output[:size] = wire[:size]
