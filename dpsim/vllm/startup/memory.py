"""The memory of a device, in blocks of the KV cache: communicators take their buffers first, then the cache gets the
rest.

A worker measures the free memory once after all communicators exist (invariant I-ST-6). Otherwise the engine gives
their memory away a second time:

    >>> memory = DeviceMemory(total=10)
    >>> memory.take(2, "NCCL"); memory.take(memory.free, "the KV cache"); memory.free
    0
    >>> memory.take(1, "an all-to-all")
    Traceback (most recent call last):
        ...
    dpsim.vllm.startup.errors.NoMemory: 1 blocks for an all-to-all: 0 of 10 are free (NCCL 2, the KV cache 8)

Sources: specification 9.2 (steps 12, 15 and 16) and mutant M-ST-10.
"""

from __future__ import annotations

from dpsim.vllm.startup.errors import NoMemory

TOTAL = 1000
COMMUNICATOR = 8
"""The blocks that a device communicator takes."""


class DeviceMemory:
    """The memory of one device. `taken`: the blocks of each user."""

    def __init__(self, total: int = TOTAL) -> None:
        self.total = total
        self.taken: dict[str, int] = {}

    @property
    def free(self) -> int:
        return self.total - sum(self.taken.values())

    def take(self, blocks: int, what: str) -> None:
        """Take blocks for a user. Raises NoMemory if not enough are free."""
        if blocks > self.free:
            has = ", ".join(f"{name} {size}" for name, size in self.taken.items())
            raise NoMemory(f"{blocks} blocks for {what}: {self.free} of {self.total} are free ({has})")
        self.taken[what] = self.taken.get(what, 0) + blocks
