"""Staging buffers: pinned host memory from which the device copies numbers, used in turn (invariant I-PS-13).

The host writes numbers, such as slots, and the device copies them when its stream reaches the copy, perhaps some steps
later. So there is one buffer for each batch that may be in flight. The host overwrites a buffer without waiting. This
is safe only because of the batch queue: the engine has already read the result of the step that last used the buffer.

The model writes the host's numbers by an op on a separate stream. This stream waits for nothing, so the write happens
at once.
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer, Rank
from dpsim.vllm.model import kernels


class Staging:
    """A number of `rotations` buffers with room for `width` int64 numbers each."""

    def __init__(self, rank: Rank, rotations: int, width: int) -> None:
        self.host, self.main = rank.stream("staging"), rank.stream("main")
        self.buffers = [self.host.alloc((width,), "int64", "staging") for _ in range(rotations)]
        self.used = 0

    def put(self, values: tuple[int, ...], site: str) -> Buffer:
        """Copy numbers to the device, on the main stream. Returns a new int64 buffer."""
        staged = self.buffers[self.used % len(self.buffers)].view(0, len(values))
        self.used += 1
        self.host.launch(f"{site}.stage", kernels.put, writes=[staged], args=(values,), cost=0)
        self.main.wait_stream(self.host)
        buffer = self.main.alloc((len(values),), "int64", site)
        self.main.launch(f"{site}.copy", kernels.copy, reads=[staged], writes=[buffer], cost=0)
        return buffer
