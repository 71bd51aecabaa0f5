"""Numbers of the host on their way to the device: staging buffers, used in turn (specification I-PS-13).

In each step the host writes numbers, such as the slots of its rows, into pinned memory. The device copies them when it
reaches the copy, perhaps some steps later. So one buffer is not enough: there is one for each batch that may be under
way. The host waits for nothing before it overwrites a buffer. Only the batch queue makes that safe: the host has
taken the result of the step that last used the buffer. If the queue holds more batches than there are buffers, the host
overwrites a buffer that the device may still copy.

The host's write is an op of a separate stream, which never waits: the write happens at once.
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
        """Copy numbers to the device, for the main stream."""
        staged = self.buffers[self.used % len(self.buffers)].view(0, len(values))
        self.used += 1
        self.host.launch(f"{site}.stage", kernels.put, writes=[staged], args=(values,), cost=0)
        self.main.wait_stream(self.host)
        buffer = self.main.alloc((len(values),), "int64", site)
        self.main.launch(f"{site}.copy", kernels.copy, reads=[staged], writes=[buffer], cost=0)
        return buffer
