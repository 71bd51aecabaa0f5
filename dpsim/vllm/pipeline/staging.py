"""Numbers of the host on their way to the device: staging buffers, used in turn (specification I-PS-13).

What the host computes for a step, as the slots of its rows, it writes into pinned memory, and the device copies it from
there when it comes to it, which may be some steps later. So one buffer is not enough. There are as many as batches may
be under way, and nothing waits before one is written anew: that the step which had it is over follows from the batch
queue alone, since the host took that step's result. A fixed capacity, and a queue that is deeper breaks it.

The host's writing is an op of a stream of its own, on which nothing is ever waited for: it happens at once.
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer, Rank
from dpsim.vllm.model import kernels


class Staging:
    """`rotations` buffers of `width` numbers, int64."""

    def __init__(self, rank: Rank, rotations: int, width: int) -> None:
        self.host, self.main = rank.stream("staging"), rank.stream("main")
        self.buffers = [self.host.alloc((width,), "int64", "staging") for _ in range(rotations)]
        self.used = 0

    def put(self, values: tuple[int, ...], site: str) -> Buffer:
        """Numbers on the device, for the main stream."""
        staged = self.buffers[self.used % len(self.buffers)].view(0, len(values))
        self.used += 1
        self.host.launch(f"{site}.stage", kernels.put, writes=[staged], args=(values,), cost=0)
        self.main.wait_stream(self.host)
        buffer = self.main.alloc((len(values),), "int64", site)
        self.main.launch(f"{site}.copy", kernels.copy, reads=[staged], writes=[buffer], cost=0)
        return buffer
