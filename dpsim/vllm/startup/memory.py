"""The memory of a device, in units of one block of the KV cache: communicators first, then the cache.

A snapshot measures the free memory. A worker takes it when all communicators exist, since their buffers count
(I-ST-6), and the cache gets the free memory of that time. An earlier snapshot gives memory away twice:

    >>> memory = DeviceMemory(total=10)
    >>> memory.take(2, "NCCL"); memory.take(memory.free, "the KV cache"); memory.free
    0
    >>> memory.take(1, "an all-to-all")
    Traceback (most recent call last):
        ...
    dpsim.vllm.startup.errors.NoMemory: 1 blocks for an all-to-all: 0 of 10 are free (NCCL 2, the KV cache 8)

Sources: specification chapter 9.2 (steps 12, 15, 16) and M-ST-10.
"""

from __future__ import annotations

from dpsim.vllm.startup.errors import NoMemory

TOTAL = 1000
COMMUNICATOR = 8
"""The blocks of a device communicator."""


class DeviceMemory:
    """The memory of one device, with the users of its blocks."""

    def __init__(self, total: int = TOTAL) -> None:
        self.total = total
        self.taken: dict[str, int] = {}

    @property
    def free(self) -> int:
        return self.total - sum(self.taken.values())

    def take(self, blocks: int, what: str) -> None:
        """Take blocks. Raises NoMemory."""
        if blocks > self.free:
            has = ", ".join(f"{name} {size}" for name, size in self.taken.items())
            raise NoMemory(f"{blocks} blocks for {what}: {self.free} of {self.total} are free ({has})")
        self.taken[what] = self.taken.get(what, 0) + blocks
