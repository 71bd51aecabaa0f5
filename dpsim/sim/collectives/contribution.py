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
    """The part of one member. `issue`: its announcement. `output`, `source`: the flat memory that it writes and reads,
    perhaps the same. `before`: the ops before it. `joined`: since when it waits. `touches`: that memory as a footprint,
    where a search or a check asks for it. `arrival`: the op by which it arrives, if there is one. `eager`: a send that
    is over for the sender before it is received. `at`: the call (journal, communicator, site, ordinal), for a reduction
    on a device that compares floating-point numbers.
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
        """What goes out: the memory itself, so to be used before anything is received."""
        return resized(self.source, self.issue) if self.issue.altered else self.source

    def keep(self) -> None:
        """Take what goes out as it is now: from here on the memory may be used again."""
        self.source = np.array(self.sent())

    def let_go(self) -> None:
        """The memory may be used for something else from now on: what comes goes nowhere. A member that has not come
        yet never does.
        """
        if self.arrival is not None and self.arrival.at < 0:
            self.arrival.life = LEFT
        self.keep()
        self.output = np.empty_like(self.output)

    def receive(self, wire: HostArray) -> None:
        """Take what came, as far as it fits. Bytes are copied: a transfer does not know types."""
        output = self.output
        if output.dtype is not wire.dtype:
            output, wire = output.view(np.uint8), np.ascontiguousarray(wire).view(np.uint8)
        if output.size == wire.size:
            output[...] = wire
        else:
            size = min(output.size, wire.size)
            output[:size] = wire[:size]
