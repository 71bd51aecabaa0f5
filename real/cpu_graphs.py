"""Graphs on a device that keeps none: a replay puts the calls on the streams' queues again.

What is kept of a call holds the tensors of its capture, as a CUDA graph holds addresses. A `free` of the program
changes nothing for it, and is a finding of the checks.
"""

from __future__ import annotations

import copy

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.contract.interface import Buffer
from real.rank import RealBuffer


class CpuGraph(JournaledGraph):
    """A graph whose calls are issued one by one."""

    __slots__ = ()

    def frozen(self, buffer: Buffer) -> Buffer:
        own: RealBuffer = of_this_backend(buffer, RealBuffer)
        bound = copy.copy(own)
        bound.base, bound._whole = None, own.tensor
        return bound
