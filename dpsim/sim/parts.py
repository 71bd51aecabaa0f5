"""What one member brings to a collective or transfer, and how it takes what comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dpsim.backend.buffers import resized
from dpsim.backend.journal import Issue
from dpsim.interface import HostArray
from dpsim.schedule import Footprint
from dpsim.sim.op import Op


class Part:
    """What one member brings: what it announces, the memory that it reads and writes (flat, perhaps the same), what it
    comes after, and since when it waits. `touches`: that memory as a footprint, where somebody wants to know. `wire`:
    an eager send's content on its way.
    """

    __slots__ = ("before", "eager", "issue", "joined", "output", "source", "touches", "wire")

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
        self.wire: HostArray | None = None

    def sent(self) -> HostArray:
        """What goes out: the memory itself, so to be used before anything is received."""
        return resized(self.source, self.issue) if self.issue.altered else self.source

    def keep(self) -> None:
        """An eager send: the memory may be used again."""
        self.wire = np.array(self.sent())

    def receive(self, wire: HostArray) -> None:
        """Take what came, as far as it fits. Bytes are copied: nobody on the way knows of types."""
        output = self.output
        if output.dtype is not wire.dtype:
            output, wire = output.view(np.uint8), np.ascontiguousarray(wire).view(np.uint8)
        if output.size == wire.size:
            output[...] = wire
        else:
            size = min(output.size, wire.size)
            output[:size] = wire[:size]


class Host(Protocol):
    """Whose part it is."""

    rank: int

    def before(self, op: Op) -> None:
        """Untimed: the op comes after what the host knows and has issued."""
