"""Graphs of the simulated machine: kept, and issued again call by call.

The calls of a replay go out as any others; what differs is the launch queue, where it is finite: a replay takes one
place there, and its branches take none.
"""

from __future__ import annotations

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.calls.streams import JournaledStream
from dpsim.backend.graphs.capture import Capture
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.sim.calls.streams import SimStream


class SimGraph(JournaledGraph):
    """A graph of one rank."""

    __slots__ = ()

    def _put(self, stream: JournaledStream, kept: Capture) -> None:
        on: SimStream = of_this_backend(stream, SimStream)
        chain, queue = on.chain, on.chain.queue
        if queue is None:
            super()._put(stream, kept)
            return
        chain.make_room(on.host)
        chain.queue = None
        try:
            super()._put(stream, kept)
        finally:
            chain.queue = queue
        if chain.tail is not None:
            queue.append(chain.tail)

    def _branch(self, name: str) -> JournaledStream:
        branch: SimStream = of_this_backend(super()._branch(name), SimStream)
        branch.chain.queue = None
        return branch
